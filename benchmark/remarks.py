"""What a user should hear of the records that come in: the first of a kind is told, and stands for all the others.

A method cannot speak for itself: its folds run in other processes and on other hosts, and only their records come back.
"""

from results.record import FoldRecord


def short_classes(record: FoldRecord) -> str:
    """One line where CCP had classes with fewer images than its pool; "" where it had none, and of other methods."""
    state = record.method_state or {}
    n_short, pool_size = state.get("short_classes"), state.get("pool_size")
    if not (isinstance(n_short, int) and isinstance(pool_size, int) and n_short > 0):
        return ""
    return (
        f"{record.identity.method}: training classes with fewer images than the pool of {pool_size}: {n_short:,} in "
        f"fold {record.fold}. They are drawn with replacement. Said once: every record counts them (short_classes)."
    )
