"""The state diagram of ARCHITECTURE.md, drawn from the table: an arrow for every phase that a cell can lead to."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from controller.core import events as e
from controller.core.facts import CardBurned, Phase
from controller.core.state import LEADS_TO
from controller.core.table import TABLE, Cell

BEGIN, END = "<!-- diagram: made by `make generate` -->", "<!-- end of the diagram -->"

# The event's word on an arrow; what leads nowhere by itself has none. A card is one word, however it was noticed.
WORDS = {
    e.StartPressed: "START",
    e.ConfirmPressed: "CONFIRM",
    e.ConfirmHeld: "CONFIRM held",
    e.CloseAsked: "close",
    e.VoidAsked: "void",
    e.ResolveAsked: "resolve",
    e.LoadAsked: "load",
    e.LidChanged: "lid",
    e.LeftCounted: "left counted",
    e.EndShoeAsked: "end",
    e.CardKnown: "card",
    e.CardUnseen: "card",
    e.CutCardPlaced: "cut card",
    e.Restarted: "restart",
    e.Elapsed: "time",
}


def arrows() -> dict[tuple[Phase, Phase], list[str]]:
    """What leads from a phase to another, in the table's order."""
    found: dict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for phase, row in TABLE.items():
        for event, cell in row.items():
            for target in _targets(phase, cell):
                if event in WORDS and WORDS[event] not in found[phase, target]:
                    found[phase, target].append(WORDS[event])
    return {pair: words for pair, words in found.items() if words}


def _targets(phase: Phase, cell: Cell) -> list[Phase]:
    """A card burned ends the burn; one burned outside it (I07, I09) leads nowhere."""
    facts = cell.yields - ({CardBurned} if phase is not Phase.BURNING else set())
    reached = {target for fact in facts for target in LEADS_TO.get(fact, ())}
    return [target for target in Phase if target in reached - {phase}]


def diagram(root: Path) -> Iterator[tuple[Path, bytes]]:
    """ARCHITECTURE.md with the diagram between its marks."""
    path = root / "ARCHITECTURE.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    lines = ["", "```mermaid", "stateDiagram-v2", "    [*] --> closed"]
    lines += [f"    {source} --> {target}: {', '.join(words)}" for (source, target), words in arrows().items()]
    yield path, (before + BEGIN + "\n".join([*lines, "```", ""]) + END + after).encode()
