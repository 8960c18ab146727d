"""Every row of Tables 2 to 4 at a glance: how far each method is behind the best of its row."""

from _results import KINDS, read_results

SIZE = (7.6, 10.4)
TITLES = {
    "paper": "as printed in the paper",
    "authors": "ours, on test samples",
    "published": "ours, as published",
    "best": "ours, searches",
}
COLOURS = {"sparse": "#35a35c", "collaborative": "#4c8bd6", "non-negative": "#dc5151", "other": "#8a8f98"}
MARKERS = {
    "SRC": "s",
    "CRC": "o",
    "CROC": "v",
    "ProCRC": "^",
    "NRC": "D",
    "SoftNRC": "*",
    "NSC": "x",
    "SVM": "+",
}
LEAST = -4.0


def draw(figure):
    results = read_results()
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    rows = list(results["paper"])
    wins = []
    for axis, (protocol, title) in zip(axes.flat, TITLES.items(), strict=True):
        count = dict.fromkeys(("sparse", "collaborative", "non-negative", "other"), 0)
        for place, row in enumerate(rows):
            accuracies = results[protocol][row]
            best = max(accuracies.values())
            axis.axhline(place, color="#8a8f98", linewidth=0.4, alpha=0.5)
            for method, accuracy in accuracies.items():
                kind = KINDS.get(method, "other")
                behind = max(accuracy - best, LEAST)
                axis.plot(
                    behind, place, MARKERS[method], color=COLOURS[kind], ms=8 if method == "SoftNRC" else 6
                )
            for kind in {KINDS.get(m, "other") for m, a in accuracies.items() if a == best}:
                count[kind] += 1
        axis.set_title(title, loc="left")
        wins.append(f"{title}: " + ", ".join(f"{kind} best in {n}" for kind, n in count.items() if n))
    first = axes[0, 0]
    first.set_yticks(range(len(rows)), rows)
    first.invert_yaxis()
    first.set_xlim(LEAST - 0.25, 0.25)
    first.set_xticks(range(int(LEAST), 1), ["≤ −4", "−3", "−2", "−1", "best"])
    for axis in axes[1]:
        axis.set_xlabel("points behind the best of the row")
    handles = [
        first.plot([], [], marker, linestyle="", color=COLOURS[KINDS.get(method, "other")], label=method)[0]
        for method, marker in MARKERS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return f"Of {len(rows)} rows, ties counted for both: " + "; ".join(wins) + "."
