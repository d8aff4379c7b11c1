"""What was found: records, their store, and the published numbers. Imports nothing of ours and never torch."""
