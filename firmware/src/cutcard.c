/* What the reflectance sensor saw: whether what passes is the cut card, whether it waits, whether the sensor is stuck.
 *
 * A drawn card uncovers the next one before it is out itself. So the cut card is what lies under the sensor while the
 * beams' first half of a passage lasts: at its end it is already the next card.
 */
#include "cutcard.h"

#define PASSED ((ticks)1 << 30) /* six days: no passage lasts so long */

/* How long after `then` it is; none, if it is not. */
static ticks passed(ticks then, ticks at) { return (int32_t)(at - then) > 0 ? at - then : 0; }

static void remember(struct cutcard *cut, ticks at) {
    cut->newest = (uint8_t)((cut->newest + 1u) % CHANGES_MAX);
    cut->changes[cut->newest] = at;
    if (cut->count < CHANGES_MAX)
        cut->count++;
}

static void tell(struct cutcard *cut, const struct report *report, struct ledger *ledger) {
    cut->told = true;
    cut->told_at = report->at;
    ledger_tell(ledger, report);
}

void cutcard_restart(struct cutcard *cut, bool level, ticks now) {
    cut->count = 0;
    cut->level = level;
    cut->rose_full = cut->warned = cut->left = false;
    remember(cut, now);
}

void cutcard_change(struct cutcard *cut, ticks at, bool full, bool alone, struct ledger *ledger) {
    const struct report alone_told = {
        .at = at,
        .covered_ms = NOT_SEEN,
        .lag_100us = NOT_SEEN,
        .kind = HEAD_KIND_CUT,
        .flags = HEAD_FLAG_ALONE,
    };
    if (!cut->level) {
        cut->rose_full = full;
    } else {
        const ticks seen = at - cut->changes[cut->newest];
        if (alone && full && cut->rose_full && seen >= CUT_MIN)
            tell(cut, &alone_told, ledger);
        ledger_well(ledger, PART_CUT, HEAD_WHY_STUCK, at);
    }
    cut->warned = cut->left = false;
    cut->level = !cut->level;
    remember(cut, at);
}

enum share cutcard_share(const struct cutcard *cut, ticks begin, ticks end, const struct ledger *ledger) {
    const ticks window = larger(1u, passed(begin, end)); /* half of it, in half ticks */
    ticks seen = 0, until = window;
    bool level = cut->level;
    uint8_t change = cut->newest;
    if (ledger->troubles[PART_CUT] != 0)
        return SHARE_NONE;
    for (uint8_t left = cut->count; left > 0 && until > 0; left--) {
        const ticks from = smaller(2u * passed(begin, cut->changes[change]), until);
        if (level)
            seen += until - from;
        level = !level;
        until = from;
        change = (uint8_t)((change + CHANGES_MAX - 1u) % CHANGES_MAX);
    }
    if (until > 0 && cut->count == CHANGES_MAX)
        return SHARE_PART;
    if (seen <= window / CUT_PARTS)
        return SHARE_NONE;
    return window - seen <= window / CUT_PARTS ? SHARE_ALL : SHARE_PART;
}

bool cutcard_left(struct cutcard *cut, ticks since, const struct report *report, struct ledger *ledger) {
    const bool fresh = !cut->told || passed(cut->told_at, since) > 0;
    if (fresh)
        tell(cut, report, ledger);
    cut->left = cut->level;
    cut->left_at = report->at;
    return fresh;
}

/* The count, which goes round, would take what is too old for new. */
static void forget(struct cutcard *cut, ticks now) {
    if (now - cut->told_at > PASSED)
        cut->told = false;
    if (now - cut->changes[cut->newest] > PASSED) {
        cut->count = 1;
        cut->changes[cut->newest] = now - PASSED;
    }
}

void cutcard_elapse(struct cutcard *cut, ticks now, const struct rest *rest, struct ledger *ledger) {
    ticks age;
    forget(cut, now);
    if (!cut->level || !rest->full || ledger->troubles[PART_CUT] != 0)
        return;
    age = now - rest->full_since;
    if (cut->left) {
        age = smaller(age, now - cut->left_at);
        if (age >= CUT_STUCK)
            ledger_fault(ledger, PART_CUT, HEAD_WHY_STUCK, now);
        return;
    }
    if (cut->warned || !rest->idle)
        return;
    age = smaller(age, smaller(now - rest->idle_since, now - cut->changes[cut->newest]));
    if (age < CUT_WAITS)
        return;
    cut->warned = true;
    ledger_tell(ledger, &(struct report){.at = now - (age - CUT_WAITS), .kind = HEAD_KIND_WAITING});
}
