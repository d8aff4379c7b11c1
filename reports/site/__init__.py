"""The leaderboard as a folder of pages that open from a file: no server, no network, nothing but its own files."""
