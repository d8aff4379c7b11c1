"""The mark of external results: scores of embeddings that somebody brought, about whose origin nothing is known."""

NAME, VERSION = "external", 1  # of the protocol under which they stand; it holds no more than how they were scored
TITLE = f"{NAME}@{VERSION}"
NOTE = "external, not audited: embeddings of unknown origin, scored as they were given"
RUNS_NOTE = "External: what the runs differ by is not known, nor whether any classes were kept for the test."
