"""`tablectl` beside a real `tabled`: its socket, its journal on disk, and both after a kill."""

import subprocess
import sys
from pathlib import Path

from tests.live import LiveTable, wait_for

REPO = Path(__file__).parents[2]


def test_a_table_is_asked_verified_killed_and_read(tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    table = LiveTable(tmp_path, casino={"primary": "file", "file": {"path": str(feed)}})

    def tablectl(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "controller.cli", "--config", str(table.config), *arguments]
        ran = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=REPO, text=True)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, ran.stdout

    with table:
        assert tablectl("shoe", "load", "--by", "dealer")[0] == 0
        table.scan("AS", "2S", "2H", "TC", "3D", "5C", "4S", "6D", "8H")
        wait_for(lambda: table.status()["slots"] == {"P1": "8H"}, "the second round")
        asked = tablectl("recall", "--json")
        verified = tablectl("journal", "verify")
        assert (asked[0], verified[0]) == (0, 0)
        table.kill()
        assert table.socket.exists()
        assert tablectl("status")[0] == 3
        assert tablectl("recall", "--json") == asked
        assert tablectl("journal", "verify") == verified
        table.start()
        assert tablectl("status")[0] == 0
        assert table.status()["conditions"][0]["code"] == "I35"
        wait_for(lambda: table.status()["backlog"] == {"file": 0}, "the feed in its file")
        assert table.stop() == 0
        assert not table.socket.exists()
    assert tablectl("journal", "verify", str(feed))[0] == 0
