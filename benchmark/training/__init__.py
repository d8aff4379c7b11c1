"""One job: training a fold model, its checkpoints, its embeddings, its record."""
