"""The houses of the tests, written by hand: what `config/profiles` says, so that no test of the core needs a file."""

from dataclasses import replace

from controller.core.cards import Slot
from controller.core.profile import Bet, Burn, CutFirst, LastRound, Payout, Profile, Stage

_PLAYER = Bet("player", (Payout("player_wins", "1"),), ("tie",))
_BANKER = Bet("banker", (Payout("banker_wins", "0.95"),), ("tie",))
_BANKER_FREE = Bet("banker", (Payout("banker_wins_with_6", "0.5"), Payout("banker_wins", "1")), ("tie",))
_TIE = Bet("tie", (Payout("tie", "8"),))
_PAIRS = tuple(Bet(f"{who}_pair", (Payout(f"{who}_pair", "11"),), (), 60) for who in ("player", "banker"))
_SIX = (Payout("banker_wins_with_6_on_2", "12"), Payout("banker_wins_with_6_on_3", "20"))
_NATURALS = tuple(Bet(f"{who}_natural", (Payout(f"{who}_natural", "3.5"),), (), 50) for who in ("player", "banker"))

CLASSIC = Profile(
    name="seeds-classic",
    hash="c1" * 32,
    decks=8,
    shoe_steps=("inspect", "wash", "riffle", "cut", "cut_card", "load"),
    burn=Burn.NONE,
    burn_count=0,
    last_round=LastRound.CURRENT_IS_LAST,
    cut_first=CutFirst.PLAY_AS_LAST,
    cut_depth=(7, 7),
    stages=(Stage(Slot.P1),),
    bets=(_PLAYER, _BANKER, _TIE),
)
COMMISSION = Profile(
    name="seeds-commission",
    hash="c0" * 32,
    decks=8,
    shoe_steps=("load", "burn"),
    burn=Burn.FIRST_CARD,
    burn_count=0,
    last_round=LastRound.CURRENT_IS_LAST,
    cut_first=CutFirst.PLAY_AS_LAST,
    cut_depth=None,
    stages=(Stage(Slot.P1),),
    bets=(_PLAYER, _BANKER, _TIE, *_PAIRS, Bet("lucky_six", _SIX), *_NATURALS),
)
NO_COMMISSION = replace(
    COMMISSION,
    name="seeds-no-commission",
    hash="c2" * 32,
    bets=(_PLAYER, _BANKER_FREE, _TIE, *_PAIRS, Bet("lucky_six", _SIX, (), 50), *_NATURALS),
)

PROFILES = {profile.name: profile for profile in (CLASSIC, COMMISSION, NO_COMMISSION)}
