"""CCP over the contrastive loss without its chain: the method `one_problem.py:OneProblem`, for a comparison with CCP.

Start, loss, pool and proxies are those of `ccp-contrastive`; all that is missing is the switch to a next problem. So
there is no projection term either, and no `lambda`.
"""

from typing import Any, ClassVar

from benchmark.methods import contrastive
from benchmark.methods.ccp import ENTRIES, ChanceConstraints
from benchmark.training.context import Context


class OneProblem(ChanceConstraints):
    """l(batch; proxies), l = contrastive; the proxies begin as embeddings of images, and no second problem follows."""

    family = "pair"
    search_space: ClassVar[dict[str, Any]] = {
        name: distribution
        for name, distribution in ENTRIES["contrastive"].space(2).items()
        if name not in ("lambda", "batch_weight")
    }

    def __init__(
        self, n_classes: int, embedding_dim: int, n_proxies: int, pool_size: int, pos_margin: float, neg_margin: float
    ) -> None:
        super().__init__(
            contrastive.build(
                n_classes=n_classes, embedding_dim=embedding_dim, pos_margin=pos_margin, neg_margin=neg_margin
            ),
            n_classes=n_classes,
            embedding_dim=embedding_dim,
            attraction=0.0,
            n_proxies=n_proxies,
            pool_size=pool_size,
            batch_weight=0.0,
        )

    def after_validation(self, map_at_r: float, context: Context) -> None:
        """As CCP's, but never stale, and the last proxies are the solution: a problem that is never ended."""
        super().after_validation(map_at_r, context)
        self._stale, self._best_proxies = 0, None
