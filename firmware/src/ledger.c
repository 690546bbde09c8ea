/* What the sensors told: events in line for the table, counters, and which sensors are at fault. */
#include "ledger.h"

void ledger_start(struct ledger *ledger, const struct counters *counters) {
    *ledger = (struct ledger){.seq = 1, .counters = *counters};
}

static uint8_t place(const struct ledger *ledger, uint8_t behind) {
    return (uint8_t)(ledger->first + behind) % HEAD_QUEUE_EVENTS;
}

static bool evidence(uint8_t kind) {
    return kind == HEAD_KIND_WAITING || kind == HEAD_KIND_PULLBACK || kind == HEAD_KIND_GLITCH;
}

void ledger_tell(struct ledger *ledger, const struct report *report) {
    const uint8_t spare = (uint8_t)(HEAD_QUEUE_EVENTS - ledger->count);
    struct report *told;
    if (evidence(report->kind) && spare < HEAD_SPARE_EVENTS)
        return;
    if (spare <= 1)
        ledger->counters.overflows++;
    if (spare == 0)
        return;
    told = &ledger->waiting[place(ledger, ledger->count++)];
    *told = *report;
    if (spare == 1)
        *told = (struct report){.at = report->at, .kind = HEAD_KIND_AMBIGUOUS, .why = HEAD_WHY_LOST};
}

const struct report *ledger_at(const struct ledger *ledger, uint8_t behind) {
    return &ledger->waiting[place(ledger, behind)];
}

uint8_t ledger_acknowledge(struct ledger *ledger, uint32_t seq) {
    const uint32_t covered = seq - ledger->seq + 1u;
    if (covered == 0 || covered > ledger->count)
        return 0;
    ledger->first = place(ledger, (uint8_t)covered);
    ledger->count = (uint8_t)(ledger->count - covered);
    ledger->seq += covered;
    return (uint8_t)covered;
}


static uint16_t bit(uint8_t why) { return (uint16_t)(1u << why); }

void ledger_fault(struct ledger *ledger, uint8_t part, uint8_t why, ticks at) {
    const struct report report = {.at = at, .kind = HEAD_KIND_STUCK, .line = LINE_OF(part), .why = why};
    const bool first = ledger->troubles[part] == 0;
    ledger->troubles[part] |= bit(why);
    if (first)
        ledger_tell(ledger, &report);
}

void ledger_well(struct ledger *ledger, uint8_t part, uint8_t why, ticks at) {
    const struct report report = {.at = at, .kind = HEAD_KIND_CLEAR, .line = LINE_OF(part)};
    if (!ledger_has(ledger, part, why))
        return;
    ledger->troubles[part] &= (uint16_t)~bit(why);
    if (ledger->troubles[part] == 0)
        ledger_tell(ledger, &report);
}

bool ledger_has(const struct ledger *ledger, uint8_t part, uint8_t why) {
    return (ledger->troubles[part] & bit(why)) != 0;
}
