"""What a bad line does to bytes: changes, loses and adds them, one by one and in bursts. Repeatable from its seed."""

import random


class Noise:
    """`rate` is the chance of a byte to be hit; of ten hits one is a burst of up to `burst` bytes lost or garbled."""

    def __init__(self, rng: random.Random, rate: float, burst: int = 200) -> None:
        self._rng, self._rate, self._burst = rng, rate, burst
        self.flips = self.drops = self.adds = self.bursts = 0
        self._until = self._gap()

    def spoil(self, data: bytes) -> bytes:
        """What comes out at the other end."""
        out = bytearray()
        at = 0
        while self._until < len(data) - at:
            out += data[at : at + self._until]
            at += self._until
            at += self._hit(data, at, out)
            self._until = self._gap()
        out += data[at:]
        self._until -= len(data) - at
        return bytes(out)

    def _gap(self) -> int:
        return int(self._rng.expovariate(self._rate)) if self._rate else 1 << 60

    def _hit(self, data: bytes, at: int, out: bytearray) -> int:
        """Does one harm at that byte; how many bytes of the data it took."""
        rng = self._rng
        what = rng.randrange(10)
        if what == 0:
            length = min(rng.randrange(1, self._burst), len(data) - at)
            self.bursts += 1
            if rng.random() < 0.5:
                out += rng.randbytes(length)
            return length
        if what < 5:
            self.flips += 1
            out.append(data[at] ^ (1 << rng.randrange(8)))
            return 1
        if what < 8:
            self.drops += 1
            return 1
        self.adds += 1
        out += rng.randbytes(rng.randrange(1, 4))
        return 0

    @property
    def hits(self) -> int:
        return self.flips + self.drops + self.adds + self.bursts
