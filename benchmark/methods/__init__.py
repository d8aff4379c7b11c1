"""The methods: what varies between runs. `registry.py` finds them by name; `entry.py` says what a method is."""
