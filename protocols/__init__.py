"""What may not vary between methods: splits, trunk, transforms, sampler, evaluation, and the proof that they held."""
