"""Linear metrics on frozen features: what a linear map alone gives. `base.py` says what they share."""
