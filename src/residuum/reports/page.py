"""What all pages share: one HTML file that asks nothing of the network, light or dark as the reader likes."""

from __future__ import annotations

import html

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1c2024; --soft: #5b6470; --line: #d8dde3;
  --band: #f4f6f8; --accent: #1a5fb4; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #15181c; --ink: #e6e9ed; --soft: #a2abb6; --line: #363d46; --band: #1d2227;
    --accent: #7ab4ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
.lead, figcaption, caption, .notes { color: var(--soft); }
.lead { margin-top: 0; max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .5rem; }
h2 + .wide caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .35rem .45rem; text-align: right; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
tbody th { font-weight: 500; }
td strong { color: var(--accent); }
.notes { font-size: .9rem; padding-left: 1.1rem; }
figure { margin: 0 0 1rem; }
figure svg { width: 100%; min-width: 38rem; height: auto; display: block; }
figure svg.query { width: 5rem; min-width: 5rem; height: 5rem; flex: none; border: 1px solid var(--line); }
figcaption { font-size: .9rem; margin-bottom: .75rem; display: flex; gap: 1rem; align-items: center; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; }
dl { margin: 0; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
""".strip()


# The page may style itself and show pictures that it contains; it runs nothing and asks no one.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(name: str, heading: str, lead: str, body: str, *, style: str = "") -> str:
    """One HTML file that asks nothing of the network; `lead` and `body` are HTML, `style` is CSS."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(name)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}{style}</style>
</head>
<body>
<main>
<h1>{html.escape(heading)}</h1>
<p class="lead">{lead}</p>
{body}
</main>
</body>
</html>
"""
