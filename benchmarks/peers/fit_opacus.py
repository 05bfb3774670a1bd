"""Logistic regression by Opacus: DP-SGD on a linear module, Poisson samples, add_remove."""

import warnings
from typing import Any

import numpy as np
import torch
from job import run
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate


class Rows(Dataset):
    """A table that hands out a whole batch at once: many times faster than row by row."""

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y = torch.as_tensor(X), torch.as_tensor(y)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.X[index], self.y[index]

    def __getitems__(self, indices: list[int]) -> tuple[Any, Any]:
        """The batch of these rows, as the loader's fetcher asks for it."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        return self.X[chosen], self.y[chosen]


def as_it_is(batch: Any) -> Any:
    """A batch from `Rows.__getitems__` is collated already."""
    return batch if isinstance(batch, tuple) else default_collate(batch)


def fit(
    X: Any, y: Any, *, epsilon: float, delta: float, strength: float, seed: int,
    batches: int, epochs: int, rate: float, momentum: float, clip: float,
) -> dict[str, Any]:  # fmt: skip
    """The last iterate, and the mean of the second half of them."""
    torch.manual_seed(seed)
    model = nn.Linear(X.shape[1], 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, weight_decay=strength)
    table = Rows(X.astype(np.float32), (y > 0).astype(np.float32))
    loader = DataLoader(table, batch_size=-(-len(y) // batches), collate_fn=as_it_is)
    private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=delta,
        epochs=epochs,
        max_grad_norm=clip,
        poisson_sampling=True,
        epsilon_tolerance=0.01 * epsilon,
        eps_error=0.01 * epsilon,
    )
    loss = nn.BCEWithLogitsLoss()
    iterates = []
    for _ in range(epochs):
        for rows, targets in loader:
            optimizer.zero_grad()
            loss(private(rows)[:, 0], targets).backward()
            optimizer.step()
            iterates.append(model.weight.detach()[0].clone())
    return {"last": iterates[-1].numpy(), "mean": torch.stack(iterates[len(iterates) // 2 :]).mean(0).numpy()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a seeded generator, hooks on a module without inputs that need gradients
    torch.set_num_threads(1)  # as fast as two on so small a module, and steadier
    run(fit)
