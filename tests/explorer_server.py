"""Explorations for tests, and a real server for them in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from residuum import ConfidentClassifier, SoftNRC
from residuum.explorer.opening import explore_digits, explore_estimator
from residuum.explorer.queries import HeldOut
from residuum.explorer.session import About

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=2</script>",
    "\u202egnp.exe",
]


def forty_classes():
    """Embeddings of 40 classes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 24))
    train, test = (
        np.concatenate([centres + 0.6 * rng.normal(size=centres.shape) for _ in range(n)]) for n in (5, 2)
    )
    y = np.array([f"person {k:02d}" for k in range(40)])
    model = SoftNRC().fit(train, np.tile(y, 5))
    held_out = HeldOut(test, np.tile(np.arange(40), 2), [f"face {i}" for i in range(80)])
    names = [f"photo {i}" for i in range(200)]
    return explore_estimator(
        model,
        About("Forty people", "embeddings", features="as they are"),
        held_out,
        names=names,
        pictures=None,
    )


def hostile_names():
    """Pictures whose files and classes have names that try to be markup."""
    rng = np.random.default_rng(1)
    centres = rng.uniform(size=(3, 64)) * 255
    train = np.clip(np.repeat(centres, 4, axis=0) + rng.normal(size=(12, 64)) * 20, 0, 255)
    labels = np.repeat(HOSTILE, 4)
    classes = np.unique(labels)
    model = ConfidentClassifier(SoftNRC(), probability=True).fit(train, labels)
    names = [f"{label} {i}.png" for i, label in enumerate(labels)]
    held_out = HeldOut(
        train[::4] * 0.9 + 10,
        np.searchsorted(classes, labels[::4]),
        [f"held out {label}" for label in labels[::4]],
        train[::4].astype(np.uint8).reshape(-1, 8, 8),
    )
    about = About(HOSTILE[0], "pixels", shape=(8, 8), features=HOSTILE[1])
    pictures = train.astype(np.uint8).reshape(-1, 8, 8)
    return explore_estimator(model, about, held_out, names=names, pictures=pictures)


def photographs():
    """Pictures with classes and files of long names without a blank, as folders of photographs have them."""
    rng = np.random.default_rng(2)
    labels = np.repeat([f"00{k}.Black_footed_Albatross_of_the_North" for k in range(4)], 5)
    train = rng.uniform(0, 255, size=(20, 64))
    model = ConfidentClassifier(SoftNRC()).fit(train, labels)
    shown = rng.integers(0, 255, size=(20, 160, 120, 3)).astype(np.uint8)
    names = [f"{label}/{label}_{i:04d}_1590.jpg" for i, label in enumerate(labels)]
    held_out = HeldOut(train[:8] + rng.normal(size=(8, 64)) * 200, np.arange(8) % 4, names[:8], shown[:8])
    about = About("Photographs", "images", features="other numbers")
    return explore_estimator(model, about, held_out, names=names, pictures=shown)


def digits():
    """The digits of ``residuum explore``."""
    return explore_digits()


@contextmanager
def served(exploration):
    """Serve an exploration; yields the address with its token."""
    from residuum.explorer.app import PATHS, ExplorerService
    from residuum.server.connections import server_of
    from residuum.server.metrics import Layout, Metrics
    from residuum.server.running import Settings, Worker, bind

    settings = Settings(port=0, paths=PATHS)
    listening = bind(settings)
    settings = replace(settings, port=listening.getsockname()[1])
    started, servers = threading.Event(), []

    async def run():
        service = ExplorerService(exploration, Worker(settings, Metrics(Layout(PATHS))))
        server = server_of(service.app, grace=1)
        servers.append(server)
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        started.set()
        await running
        await service.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    started.wait()
    try:
        yield f"{settings.url}/?token={settings.token}"
    finally:
        servers[0].should_exit = True
        thread.join()
        listening.close()
