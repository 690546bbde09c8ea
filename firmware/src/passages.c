/* What the two beams of the exit saw. Takes changes in order of time and says only what the beams prove.
 *
 * The table is passages_step: each place answers both beams. A report is made at the first moment at which it is sure.
 */
#include "passages.h"

static void ambiguous(ticks at, uint8_t why, struct ledger *ledger) {
    ledger_tell(ledger, &(struct report){.at = at, .kind = HEAD_KIND_AMBIGUOUS, .why = why});
}

static void glitch(struct passages *exit, enum part beam, ticks at, struct ledger *ledger) {
    struct glitches *times = &exit->glitches[beam];
    ledger->counters.glitches++;
    ledger_tell(ledger, &(struct report){.at = at, .kind = HEAD_KIND_GLITCH, .line = LINE_OF(beam)});
    times->at[times->next] = at;
    times->next = (uint8_t)((times->next + 1u) % HEAD_FLICKER_COUNT);
    if (times->count < HEAD_FLICKER_COUNT)
        times->count++;
    if (times->count == HEAD_FLICKER_COUNT && at - times->at[times->next] <= FLICKER)
        ledger_fault(ledger, beam, HEAD_WHY_FLICKERS, at);
}

/* The other beam alone saw something. A dead lamp or a torn wire shows like this, and so does a finger. */
static void one_beam(struct passages *exit, enum part blind, ticks at, struct ledger *ledger) {
    if (exit->alone[blind] < HEAD_BLIND_COUNT)
        exit->alone[blind]++;
    if (exit->alone[blind] == HEAD_BLIND_COUNT)
        ledger_fault(ledger, blind, HEAD_WHY_BLIND, at);
}

static void both_saw(struct passages *exit, ticks at, struct ledger *ledger) {
    for (uint8_t beam = 0; beam < BEAMS; beam++) {
        exit->alone[beam] = 0;
        ledger_well(ledger, beam, HEAD_WHY_BLIND, at);
    }
}

#define LAG_MOST ((NOT_SEEN - 1u) / (TICK_US / 100u)) /* the longest that EVENT can say */

/* --- judgements ---------------------------------------------------------------------------------- */

/* One card or two by the length that passed; 0: not to be told.
 *
 * From beam to beam the front took `first` and the tail `last`. The slower of the two is the speed that bears no doubt:
 * a card slid out and then snatched is no longer for it. What it may have done is to stop half way out.
 */
static uint8_t cards(ticks first, ticks covered, ticks last) {
    /* So large that it makes no difference, and the products fit. */
    const ticks slower = smaller(larger(first, last), UINT32_MAX / TWO_LAGS - RESOLUTION);
    const ticks faster = smaller(first, last);
    if (covered <= ONE_LAGS * (slower + RESOLUTION))
        return 1;
    if (covered > TWO_LAGS * slower)
        return 1;
    if (covered <= PULL)
        return 2;
    return 2u * slower <= EVEN_HALVES * faster ? 0 : 1;
}

static void left(struct passages *exit, struct report *report, uint8_t cards, struct ledger *ledger) {
    exit->left = true;
    report->kind = cards == 1 ? HEAD_KIND_CARD : HEAD_KIND_TWO;
    ledger->counters.cards = (uint16_t)(ledger->counters.cards + cards);
    ledger_tell(ledger, report);
}

/* By what lay under the reflectance sensor in the first half of the passage. */
static void judge_face(struct passages *exit, uint8_t number, struct report *report, struct ledger *ledger,
                       struct cutcard *cut) {
    const enum share share = cutcard_share(cut, exit->over, exit->cleared, ledger);
    if (share == SHARE_PART) {
        ambiguous(report->at, HEAD_WHY_CUT, ledger);
    } else if (number != 1 && (number == 0 || share == SHARE_ALL)) {
        ambiguous(report->at, HEAD_WHY_LENGTH, ledger);
    } else if (share == SHARE_ALL) {
        report->kind = HEAD_KIND_CUT;
        exit->left = cutcard_left(cut, exit->over, report, ledger);
    } else {
        left(exit, report, number, ledger);
    }
}

/* Says what it was whose tail left the outer beam. */
static void judge(struct passages *exit, ticks at, struct ledger *ledger, struct cutcard *cut) {
    struct report report = {.at = at, .covered_ms = NOT_SEEN, .lag_100us = NOT_SEEN, .reflected = exit->reflected};
    uint8_t number = 1;
    exit->judged = exit->entered;
    exit->judged_known = exit->entered_known;
    if (exit->entered_known) {
        const ticks covered = exit->cleared - exit->entered, lag = exit->over - exit->entered;
        const ticks last = at - exit->cleared;
        const bool inner_short = covered < CARD_MIN, outer_short = at - exit->over < CARD_MIN;
        if (inner_short && outer_short) {
            glitch(exit, PART_INNER, at, ledger);
            glitch(exit, PART_OUTER, at, ledger);
            return;
        }
        if (inner_short || outer_short || smaller(lag, last) < LAG_MIN) {
            ambiguous(at, HEAD_WHY_SENSORS, ledger);
            return;
        }
        number = cards(lag, covered, last);
        report.covered_ms = (uint16_t)smaller(covered / TICKS_PER_MS, NOT_SEEN - 1u);
        report.lag_100us = (uint16_t)(smaller(lag, LAG_MOST) * (TICK_US / 100u));
        if (covered > SLOW)
            report.flags = HEAD_FLAG_SLOW;
    }
    both_saw(exit, at, ledger);
    judge_face(exit, number, &report, ledger, cut);
}

/* --- a card on its way out ----------------------------------------------------------------------- */

static enum place enter(struct passages *exit, ticks at) {
    exit->entered = at;
    exit->entered_known = true;
    exit->touched = false;
    return ENTERING;
}

static void pulled_back(ticks at, struct ledger *ledger) {
    ledger->counters.pullbacks++;
    ledger_tell(ledger, &(struct report){.at = at, .kind = HEAD_KIND_PULLBACK});
}

/* A front left the inner beam again; before it left the shoe, that is told for the record only (I17). */
static enum place go_back(struct passages *exit, ticks at, struct ledger *ledger) {
    if (!exit->entered_known)
        return IDLE;
    if (at - exit->entered < CARD_MIN) {
        glitch(exit, PART_INNER, at, ledger);
        return IDLE;
    }
    pulled_back(at, ledger);
    if (!exit->touched)
        one_beam(exit, PART_OUTER, at, ledger);
    return IDLE;
}

static enum place reach(struct passages *exit, ticks at) {
    exit->over = at;
    return OVER;
}

static enum place draw_back(struct passages *exit, ticks at, struct ledger *ledger) {
    exit->touched = true;
    if (at - exit->over < CARD_MIN) { /* too short for a card to have left */
        glitch(exit, PART_OUTER, at, ledger);
        return ENTERING;
    }
    exit->doubt = at;
    return DOUBT;
}

/* Both beams cleared from outside to inside: a hand took it back, if that was no faster than a hand is. */
static enum place was_back(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->doubt < CARD_MIN) /* a glitch of the inner beam may have hidden that it left */
        ambiguous(at, HEAD_WHY_SENSORS, ledger);
    else
        pulled_back(at, ledger);
    return IDLE;
}

/* Whether a card left is not known; what covers the inner beam now counts as a card that entered unseen. */
static enum place dragged(struct passages *exit, struct ledger *ledger) {
    ambiguous(exit->doubt, HEAD_WHY_DRAGGED, ledger);
    exit->entered_known = false;
    return ENTERING;
}

static enum place reach_again(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->doubt < DROPOUT) {
        glitch(exit, PART_OUTER, at, ledger);
        return OVER;
    }
    exit->over = at;
    dragged(exit, ledger);
    return OVER;
}

static enum place tail(struct passages *exit, ticks at) {
    exit->cleared = at;
    return LEAVING;
}

static enum place leave(struct passages *exit, ticks at, struct ledger *ledger, struct cutcard *cut) {
    judge(exit, at, ledger, cut);
    return IDLE;
}

/* --- a card close behind ------------------------------------------------------------------------- */

static enum place follow(struct passages *exit, ticks at) {
    exit->again = at;
    return TIGHT;
}

/* The card was pushed back in part and drawn on, or the next one caught up with it under the outer beam. */
static enum place tail_again(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->again < CARD_MIN) {
        glitch(exit, PART_INNER, at, ledger);
        return LEAVING;
    }
    if (exit->again - exit->cleared < DROPOUT) {
        glitch(exit, PART_INNER, at, ledger);
        exit->cleared = at;
        return LEAVING;
    }
    exit->odd = HEAD_WHY_TIGHT;
    return ODD;
}

/* Either the card left, and the next one entered; or it was pushed back whole, which takes it far longer. */
static enum place leave_tight(struct passages *exit, ticks at, struct ledger *ledger, struct cutcard *cut) {
    if (exit->entered_known) {
        const ticks way = at - exit->cleared, lag = smaller(exit->over - exit->entered, FOLLOW);
        if (way <= FOLLOW && 2u * way <= FOLLOW_HALVES * lag) {
            judge(exit, at, ledger, cut);
            return enter(exit, exit->again);
        }
    }
    ambiguous(at, HEAD_WHY_TIGHT, ledger);
    exit->entered_known = false;
    return ENTERING;
}

/* --- from outside -------------------------------------------------------------------------------- */

static enum place poke(struct passages *exit, ticks at) {
    exit->over = at;
    return POKED;
}

static enum place poke_over(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->over < CARD_MIN)
        glitch(exit, PART_OUTER, at, ledger);
    else
        one_beam(exit, PART_INNER, at, ledger);
    return IDLE;
}

static enum place push(struct passages *exit, ticks at) {
    exit->again = at;
    return PUSHED;
}

static enum place push_in(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->over < CARD_MIN) { /* a glitch, and then a card that is on its way out */
        glitch(exit, PART_OUTER, at, ledger);
        return enter(exit, exit->again);
    }
    ledger_tell(ledger, &(struct report){.at = at, .kind = HEAD_KIND_REVERSE});
    exit->entered_known = false;
    return ENTERING;
}

static enum place push_out(struct passages *exit, ticks at, struct ledger *ledger) {
    if (at - exit->again < CARD_MIN) {
        glitch(exit, PART_INNER, at, ledger);
        return POKED;
    }
    exit->odd = HEAD_WHY_OUTSIDE;
    return ODD;
}

/* If from outside: a card half put in and taken out, or one drawn under a finger that was there before it. */
static enum place odd_out(struct passages *exit, ticks at, struct ledger *ledger) {
    ambiguous(at, exit->odd, ledger);
    return IDLE;
}

static enum place muddle_in(struct passages *exit, ticks at, struct ledger *ledger) {
    ambiguous(at, exit->odd, ledger);
    exit->entered_known = false;
    return ENTERING;
}

/* --- the table ----------------------------------------------------------------------------------- */

static enum place next(struct passages *exit, bool inner, ticks at, struct ledger *ledger, struct cutcard *cut) {
    switch (exit->place) {
    case IDLE:
        return inner ? enter(exit, at) : poke(exit, at);
    case ENTERING:
        return inner ? go_back(exit, at, ledger) : reach(exit, at);
    case OVER:
        return inner ? tail(exit, at) : draw_back(exit, at, ledger);
    case DOUBT:
        return inner ? was_back(exit, at, ledger) : reach_again(exit, at, ledger);
    case LEAVING:
        return inner ? follow(exit, at) : leave(exit, at, ledger, cut);
    case TIGHT:
        return inner ? tail_again(exit, at, ledger) : leave_tight(exit, at, ledger, cut);
    case POKED:
        return inner ? push(exit, at) : poke_over(exit, at, ledger);
    case PUSHED:
        return inner ? push_out(exit, at, ledger) : push_in(exit, at, ledger);
    case ODD:
        return inner ? MUDDLE : odd_out(exit, at, ledger);
    case MUDDLE:
        break;
    }
    return inner ? ODD : muddle_in(exit, at, ledger);
}

void passages_step(struct passages *exit, enum part beam, ticks at, struct ledger *ledger, struct cutcard *cut) {
    exit->left = false;
    exit->place = next(exit, beam == PART_INNER, at, ledger, cut);
    if (exit->place == IDLE)
        exit->idle_since = at;
}

void passages_restart(struct passages *exit, bool inner, bool outer, ticks now) {
    exit->entered_known = exit->touched = false;
    exit->over = exit->idle_since = now;
    exit->odd = HEAD_WHY_OUTSIDE;
    if (inner)
        exit->place = outer ? OVER : ENTERING;
    else
        exit->place = outer ? ODD : IDLE;
}

bool passages_deadline(const struct passages *exit, ticks *deadline) {
    *deadline = exit->doubt + BACK;
    return exit->place == DOUBT;
}

void passages_expire(struct passages *exit, struct ledger *ledger) { exit->place = dragged(exit, ledger); }

bool passages_restless(const struct passages *exit, enum part beam, ticks *at) {
    const struct glitches *times = &exit->glitches[beam];
    *at = times->at[(times->next + HEAD_FLICKER_COUNT - 1u) % HEAD_FLICKER_COUNT];
    return times->count > 0;
}
