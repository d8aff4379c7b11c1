"""Results and embeddings that come from elsewhere or go there."""
