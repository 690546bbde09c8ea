/* The sensors of the shoe: debounced, put in order of time, classified. Knows no register and no clock. */
#include "sensors.h"

static uint8_t mask(uint8_t part) { return (uint8_t)(1u << part); }

/* Of two ticks' lower halves, of the last seconds. */
static bool later(uint16_t a, uint16_t b) { return (int16_t)(a - b) > 0; }

static ticks whole(uint16_t at, ticks now) { return now - (uint16_t)((uint16_t)now - at); }

static bool before(const struct change *a, const struct change *b) {
    return later(b->at, a->at) || (a->at == b->at && a->beam < b->beam);
}

static uint8_t settle(uint8_t part) {
    if (part == PART_PRESENT)
        return MOUTH_SETTLE;
    return part == PART_LID ? LID_SETTLE : SETTLE;
}

/* --- what the lines show ------------------------------------------------------------------------- */

static void tell(struct sensors *sensors, uint8_t part, ticks at, struct ledger *ledger) {
    const bool level = sensors->lines[part].level;
    struct report report = {.at = at, .kind = part == PART_LID ? HEAD_KIND_LID : HEAD_KIND_PRESENT};
    if ((part != PART_PRESENT && part != PART_LID) || (sensors->told[part] && sensors->told_level[part] == level))
        return;
    sensors->told[part] = true;
    sensors->told_level[part] = level;
    report.flags = level ? HEAD_FLAG_ON : 0;
    ledger_tell(ledger, &report);
}

static struct rest rest(const struct sensors *sensors) {
    const struct debounce *mouth = &sensors->lines[PART_PRESENT];
    return (struct rest){
        .idle = sensors->exit.place == IDLE && sensors->changes_count == 0,
        .full = mouth->level,
        .idle_since = sensors->exit.idle_since,
        .full_since = mouth->since,
    };
}

static void put_in_order(struct sensors *sensors, struct change change) {
    uint8_t place = sensors->changes_count++;
    for (; place > 0 && before(&change, &sensors->changes[place - 1u]); place--)
        sensors->changes[place] = sensors->changes[place - 1u];
    sensors->changes[place] = change;
}

static void changed(struct sensors *sensors, uint8_t part, struct ledger *ledger) {
    const struct debounce *line = &sensors->lines[part];
    if (part < BEAMS && sensors->changes_count == CHANGES_WAIT_MAX) {
        sensors_lose(line->since, ledger); /* no beam can change so often: but if one did, it is told */
    } else if (part < BEAMS) {
        put_in_order(sensors, (struct change){.at = (uint16_t)line->since, .beam = part});
        if (!line->level)
            ledger_well(ledger, part, HEAD_WHY_STUCK, line->since);
    } else if (part == PART_CUT) {
        const bool alone = ledger->troubles[PART_INNER] != 0 || ledger->troubles[PART_OUTER] != 0;
        cutcard_change(&sensors->cut, line->since, sensors->lines[PART_PRESENT].level, alone, ledger);
    } else {
        tell(sensors, part, line->since, ledger);
    }
}

/* --- order --------------------------------------------------------------------------------------- */

/* True: a beam has not made up its mind since `first`, and what came after waits; but for no flickering beam. */
static bool horizon(const struct sensors *sensors, ticks now, struct change *first) {
    bool any = false;
    for (uint8_t beam = 0; beam < BEAMS; beam++) {
        const struct debounce *line = &sensors->lines[beam];
        const struct change began = {.at = (uint16_t)line->began, .beam = beam};
        if (!line->open || now - line->began >= CHATTER || (any && !before(&began, first)))
            continue;
        *first = began;
        any = true;
    }
    return any;
}

/* What left tells on the sensor in the mouth. */
static void moved(struct sensors *sensors, ticks at, ticks now, struct ledger *ledger) {
    const struct debounce *mouth = &sensors->lines[PART_PRESENT];
    const struct passages *exit = &sensors->exit;
    if (!exit->left)
        return;
    if (mouth->level || !exit->judged_known || now - mouth->since < now - exit->judged + MOUTH_EARLY) {
        sensors->unseen = 0;
        ledger_well(ledger, PART_PRESENT, HEAD_WHY_BLIND, at);
        return;
    }
    if (sensors->unseen < HEAD_BLIND_COUNT)
        sensors->unseen++;
    if (sensors->unseen == HEAD_BLIND_COUNT)
        ledger_fault(ledger, PART_PRESENT, HEAD_WHY_BLIND, at);
}

/* A beam that flickered makes up its mind when the other has been judged further: it counts from there. */
static void step_first(struct sensors *sensors, ticks now, struct ledger *ledger) {
    const ticks at = now - smaller(now - whole(sensors->changes[0].at, now), now - sensors->judged_to);
    const uint8_t beam = sensors->changes[0].beam;
    sensors->changes_count--;
    for (uint8_t place = 0; place < sensors->changes_count; place++)
        sensors->changes[place] = sensors->changes[place + 1u];
    sensors->judged_to = at;
    sensors->exit.reflected = reflect_mean(&sensors->reflect);
    passages_step(&sensors->exit, (enum part)beam, at, ledger, &sensors->cut);
    if (sensors->exit.place == OVER)
        reflect_restart(&sensors->reflect);
    moved(sensors, at, now, ledger);
}

static void expire(struct sensors *sensors, ticks deadline, struct ledger *ledger) {
    sensors->judged_to = deadline;
    passages_expire(&sensors->exit, ledger);
}

/* The beams' changes and the exit's deadline, in the order in which they happened. */
static void let_pass(struct sensors *sensors, ticks now, struct ledger *ledger) {
    while (sensors->changes_count > 0 || sensors->exit.place == DOUBT) {
        struct change first = {0};
        ticks deadline;
        const bool waits = horizon(sensors, now, &first);
        const bool due = passages_deadline(&sensors->exit, &deadline);
        const struct change *change = &sensors->changes[0];
        if (sensors->changes_count > 0 && (!waits || before(change, &first)) &&
            !(due && later(change->at, (uint16_t)deadline)))
            step_first(sensors, now, ledger);
        else if (due && (int32_t)(now - deadline) >= 0 && (!waits || later(first.at, (uint16_t)deadline)))
            expire(sensors, deadline, ledger);
        else
            return;
    }
}

/* --- faults -------------------------------------------------------------------------------------- */

/* When the beam last flickered: it is over when it has not for FLICKER. */
static ticks flickered(struct sensors *sensors, uint8_t beam, ticks now) {
    ticks at;
    ticks last = sensors->restless[beam] ? now - sensors->restless_at[beam] : UINT32_MAX;
    if (passages_restless(&sensors->exit, (enum part)beam, &at))
        last = smaller(last, now - at);
    return last;
}

static void watch(struct sensors *sensors, uint8_t beam, ticks now, struct ledger *ledger) {
    const struct debounce *line = &sensors->lines[beam];
    if (!line->level && !line->open && ledger->troubles[beam] == 0) /* as nearly always */
        return;
    if (line->level && now - line->since >= STUCK)
        ledger_fault(ledger, beam, HEAD_WHY_STUCK, now);
    if (line->open && now - line->began >= CHATTER) {
        ledger_fault(ledger, beam, HEAD_WHY_FLICKERS, now);
        sensors->restless[beam] = true;
        sensors->restless_at[beam] = now + 1u; /* when it is over at the soonest */
    } else if (ledger_has(ledger, beam, HEAD_WHY_FLICKERS) && flickered(sensors, beam, now) >= FLICKER) {
        ledger_well(ledger, beam, HEAD_WHY_FLICKERS, now);
        sensors->restless[beam] = false;
    }
}

/* --- what the caller does ------------------------------------------------------------------------ */

void sensors_step(struct sensors *sensors, uint8_t levels, uint16_t reflected, ticks now, struct ledger *ledger) {
    struct rest others;
    for (uint8_t part = 0; part < PARTS; part++)
        if (debounce_elapse(&sensors->lines[part]))
            changed(sensors, part, ledger);
    let_pass(sensors, now, ledger);
    others = rest(sensors);
    cutcard_elapse(&sensors->cut, now, &others, ledger);
    for (uint8_t beam = 0; beam < BEAMS; beam++)
        watch(sensors, beam, now, ledger);
    for (uint8_t part = 0; part < PARTS; part++)
        debounce_sample(&sensors->lines[part], (levels & mask(part)) != 0, now);
    if (sensors->exit.place == OVER)
        reflect_add(&sensors->reflect, reflected);
}

void sensors_restart(struct sensors *sensors, uint8_t levels, ticks now, struct ledger *ledger) {
    sensors->changes_count = 0;
    sensors->judged_to = now;
    for (uint8_t part = 0; part < PARTS; part++)
        debounce_restart(&sensors->lines[part], (levels & mask(part)) != 0, now, settle(part));
    passages_restart(&sensors->exit, (levels & HEAD_SEEN_INNER) != 0, (levels & HEAD_SEEN_OUTER) != 0, now);
    cutcard_restart(&sensors->cut, (levels & HEAD_SEEN_CUT) != 0, now);
    reflect_restart(&sensors->reflect);
    for (uint8_t part = 0; part < PARTS; part++) {
        tell(sensors, part, now, ledger);
        if (!sensors->lines[part].level)
            ledger_well(ledger, part, HEAD_WHY_STUCK, now);
    }
}

void sensors_lose(ticks now, struct ledger *ledger) {
    ledger_tell(ledger, &(struct report){.at = now, .kind = HEAD_KIND_AMBIGUOUS, .why = HEAD_WHY_LOST});
}

uint8_t sensors_seen(const struct sensors *sensors) {
    uint8_t seen = 0;
    for (uint8_t part = 0; part < PARTS; part++)
        if (sensors->lines[part].level)
            seen = (uint8_t)(seen | mask(part));
    if (sensors->exit.place != IDLE || sensors->lines[PART_INNER].open || sensors->lines[PART_OUTER].open)
        seen |= HEAD_SEEN_MOVING;
    return seen;
}
