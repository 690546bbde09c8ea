/* The thresholds in time and their ratios, in ticks; the protocol's definition has the figures, and why.
 *
 * A tick is one sample of every sensor, half a millisecond. The count goes round after 24 days, so only ages
 * (now - then) are compared.
 */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdint.h>

#include "../protocol/protocol.h"

typedef uint32_t ticks;

#define TICK_US 500u
#define TICKS(us) ((ticks)((1ul * (us) + TICK_US - 1u) / TICK_US)) /* wider than the chip's int */
#define TICKS_PER_MS 2u

#define SETTLE TICKS(HEAD_SETTLE_US)
#define MOUTH_SETTLE TICKS(HEAD_MOUTH_SETTLE_US)
#define LID_SETTLE TICKS(HEAD_LID_SETTLE_US)
#define CHATTER TICKS(HEAD_CHATTER_US)
#define CARD_MIN TICKS(HEAD_CARD_MIN_US)
#define LAG_MIN TICKS(HEAD_LAG_MIN_US)
#define DROPOUT TICKS(HEAD_DROPOUT_US)
#define BACK TICKS(HEAD_BACK_US)
#define FOLLOW TICKS(HEAD_FOLLOW_US)
#define PULL TICKS(HEAD_PULL_US)
#define SLOW TICKS(HEAD_SLOW_US)
#define STUCK TICKS(HEAD_STUCK_US)
#define FLICKER TICKS(HEAD_FLICKER_US)
#define CUT_MIN TICKS(HEAD_CUT_MIN_US)
#define CUT_WAITS TICKS(HEAD_CUT_WAITS_US)
#define CUT_STUCK TICKS(HEAD_CUT_STUCK_US)
#define MOUTH_EARLY TICKS(HEAD_MOUTH_EARLY_US)
#define RESOLUTION TICKS(HEAD_RESOLUTION_US)

/* Ratios as whole numbers: the chip has no division worth its time. */
#define ONE_LAGS ((ticks)HEAD_TWO_MIN_PERCENT * HEAD_CARD_LAGS_PERCENT / 10000u) /* up to here it is one card */
#define TWO_LAGS ((ticks)HEAD_TWO_MAX_PERCENT * HEAD_CARD_LAGS_PERCENT / 10000u) /* and up to here it is two */
#define EVEN_HALVES (HEAD_EVEN_PERCENT / 50u)
#define FOLLOW_HALVES (HEAD_FOLLOW_LAGS_PERCENT / 50u)
#define CUT_PARTS (100u / HEAD_CUT_NONE_PERCENT)

_Static_assert(ONE_LAGS * 10000u == HEAD_TWO_MIN_PERCENT * (ticks)HEAD_CARD_LAGS_PERCENT, "a whole number of lags");
_Static_assert(TWO_LAGS * 10000u == HEAD_TWO_MAX_PERCENT * (ticks)HEAD_CARD_LAGS_PERCENT, "a whole number of lags");
_Static_assert(EVEN_HALVES * 50u == HEAD_EVEN_PERCENT, "a whole number of halves");
_Static_assert(FOLLOW_HALVES * 50u == HEAD_FOLLOW_LAGS_PERCENT && FOLLOW_HALVES >= 2u, "a whole number of halves");
_Static_assert(CUT_PARTS * HEAD_CUT_NONE_PERCENT == 100u, "a whole part");
_Static_assert(HEAD_CUT_SURE_PERCENT + HEAD_CUT_NONE_PERCENT == 100u, "as sure of the cut card as of a card");
_Static_assert(MOUTH_SETTLE < 128u, "debounce counts in a byte");

static inline ticks smaller(ticks a, ticks b) { return a < b ? a : b; }
static inline ticks larger(ticks a, ticks b) { return a > b ? a : b; }

#endif
