/* The head's judgement as a library of the tests: levels of the lines in, tick by tick, reports out. */
#include <stddef.h>

#include "../src/sensors.h"

struct told { /* a report, as tests/firmware/replay.py reads it */
    uint32_t at;
    uint16_t covered_ms;
    uint16_t lag_100us;
    uint8_t kind;
    uint8_t line;
    uint8_t why;
    uint8_t flags;
};

static size_t drain(struct ledger *ledger, struct told *told, size_t room) {
    size_t count = 0;
    for (; count < ledger->count && count < room; count++) {
        const struct report *report = ledger_at(ledger, (uint8_t)count);
        told[count] = (struct told){
            .at = report->at,
            .covered_ms = report->covered_ms,
            .lag_100us = report->lag_100us,
            .kind = report->kind,
            .line = report->line,
            .why = report->why,
            .flags = report->flags,
        };
    }
    ledger_acknowledge(ledger, ledger->seq + ledger->count - 1u);
    return count;
}

/* One byte of levels a tick, the first at tick `begin`; what stands there at first is not told. Returns how many.
 *
 * `counted` gets how many glitches and pull-backs there were: of many at once not all are told.
 */
size_t replay(const uint8_t *levels, size_t count, uint32_t begin, struct told *told, size_t room,
              uint16_t counted[2]) {
    static const struct counters none;
    static struct sensors sensors;
    struct ledger ledger;
    size_t reports = 0;
    ledger_start(&ledger, &none);
    sensors = (struct sensors){0};
    sensors_restart(&sensors, levels[0], begin, &ledger);
    ledger_acknowledge(&ledger, ledger.count);
    for (size_t tick = 1; tick < count; tick++) {
        sensors_step(&sensors, levels[tick], 0, begin + (uint32_t)tick, &ledger);
        reports += drain(&ledger, told + reports, room - reports);
    }
    counted[0] = ledger.counters.glitches;
    counted[1] = ledger.counters.pullbacks;
    return reports;
}
