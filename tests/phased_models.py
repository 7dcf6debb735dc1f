"""Models that are trained in phases, their losses and their optimizers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Gan(nn.Module):
    """A DCGAN of images of 8 by 8."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(6, 8, 4, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1),
            nn.Tanh(),
        )
        self.critic = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(128, 1)
        )


def of_critic(model: Any, real: Tensor, noise: Tensor) -> Tensor:
    """A GAN's loss of the critic."""
    fake = model.generator(noise).detach()
    return functional.softplus(-model.critic(real)).mean() + functional.softplus(model.critic(fake)).mean()


def of_generator(model: Any, noise: Tensor) -> Tensor:
    """A GAN's loss of the generator."""
    return functional.softplus(-model.critic(model.generator(noise))).mean()


def gan_optimizers(model: Any) -> dict[str, torch.optim.Optimizer]:
    """Of critic and generator, with weight decay."""
    return {
        "critic": torch.optim.AdamW(model.critic.parameters(), lr=2e-3, betas=(0.5, 0.999), weight_decay=0.1, eps=1e-5),
        "generator": torch.optim.AdamW(model.generator.parameters(), lr=1e-3, weight_decay=0.1, eps=1e-5),
    }


class Small(nn.Module):
    """A GAN of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def with_penalty(model: Any, real: Tensor, noise: Tensor, between: Tensor) -> Tensor:
    """Wasserstein's loss with a gradient penalty (Gulrajani et al., 2017)."""
    fake = model.generator(noise).detach()
    share = torch.sigmoid(between)
    mixed = (share * real + (1 - share) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(model.critic(mixed).sum(), mixed, create_graph=True)
    return (model.critic(fake) - model.critic(real)).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()


def wasserstein(model: Any, noise: Tensor) -> Tensor:
    """The generator's."""
    return -model.critic(model.generator(noise)).mean()


class ActorCritic(nn.Module):
    """SAC: an actor, two critics with their targets, and a temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
        self.critics = nn.ModuleList(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2))
        self.targets = copy.deepcopy(self.critics)
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def act(self, seen: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """An action, and the logarithm of its probability."""
        mean, log_scale = self.actor(seen).chunk(2, 1)
        log_scale = log_scale.tanh()
        action = torch.tanh(mean + log_scale.exp() * noise)
        log_probability = -0.5 * noise**2 - log_scale - torch.log(1 - action**2 + 1e-6)
        return action, log_probability.sum(1, keepdim=True)

    def least(self, critics: Any, seen: Tensor, action: Tensor) -> Tensor:
        """The smaller value of two critics."""
        given = torch.cat([seen, action], 1)
        return torch.minimum(critics[0](given), critics[1](given))


def of_critics(model: Any, seen: Tensor, action: Tensor, reward: Tensor, after: Tensor, noise: Tensor) -> Tensor:
    """SAC's loss of the critics."""
    with torch.no_grad():
        following, log_probability = model.act(after, noise)
        value = model.least(model.targets, after, following) - model.log_temperature.exp() * log_probability
        wanted = reward + 0.99 * value
    given = torch.cat([seen, action], 1)
    return functional.mse_loss(model.critics[0](given), wanted) + functional.mse_loss(model.critics[1](given), wanted)


def of_actor(model: Any, seen: Tensor, noise: Tensor) -> Tensor:
    """SAC's loss of the actor."""
    action, log_probability = model.act(seen, noise)
    return (model.log_temperature.exp().detach() * log_probability - model.least(model.critics, seen, action)).mean()


def of_temperature(model: Any, seen: Tensor, noise: Tensor) -> Tensor:
    """SAC's loss of the temperature."""
    _, log_probability = model.act(seen, noise)
    return -(model.log_temperature.exp() * (log_probability.detach() - 2.0)).mean()


@torch.no_grad()
def follow(model: Any) -> None:
    """Moves the targets (Polyak)."""
    for target, own in zip(model.targets.parameters(), model.critics.parameters(), strict=True):
        target.lerp_(own, 0.05)


def actor_critic_optimizers(model: Any) -> dict[str, torch.optim.Optimizer]:
    """Of all phases that train."""
    return {
        "critics": torch.optim.Adam(model.critics.parameters(), lr=3e-3, eps=1e-5),
        "actor": torch.optim.Adam(model.actor.parameters(), lr=1e-3, eps=1e-5),
        "temperature": torch.optim.Adam([model.log_temperature], lr=1e-2),
    }


class Averaged(nn.Module):
    """A network, and an average of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(4, 4)
        self.average = copy.deepcopy(self.network).requires_grad_(False)


def of_network(model: Any, x: Tensor, y: Tensor) -> Tensor:
    """A plain loss."""
    return functional.mse_loss(model.network(x), y)


@torch.no_grad()
def average(model: Any) -> None:
    """An exponential moving average of the weights."""
    for kept, own in zip(model.average.parameters(), model.network.parameters(), strict=True):
        kept.mul_(0.9).add_(own, alpha=0.1)


def following(model: Any, x: Tensor, y: Tensor) -> Tensor:
    """A loss in which the average moves, too, by the weights before the update."""
    average(model)
    return of_network(model, x, y)


class Shared(nn.Module):
    """Two heads on one body, each with a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 3)


def of_one(model: Any, x: Tensor, y: Tensor) -> Tensor:
    """Of the first head."""
    return functional.mse_loss(model.one(model.body(x).tanh()), y)


def of_other(model: Any, x: Tensor, y: Tensor) -> Tensor:
    """Of the second."""
    return functional.l1_loss(model.other(model.body(x).tanh()), y)


def one_optimizer(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    """The same for both phases."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-5)
    return {"one": optimizer, "other": optimizer}
