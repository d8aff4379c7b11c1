"""What may not vary between two methods: splits, trunk, transforms, sampler, evaluation, and the proof that they held."""
