/* What the reflectance sensor read, on the mean, in the first half of a time whose end is not known yet.
 *
 * Bins of one width hold all there is; when they are full, each two become one, and the width doubles.
 */
#include "reflect.h"

#define WIDTH_MAX 0x8000u

void reflect_restart(struct reflect *reflect) { *reflect = (struct reflect){.width = 1}; }

static void fold(struct reflect *reflect) {
    for (uint8_t pair = 0; pair < REFLECT_BINS / 2u; pair++)
        reflect->bins[pair] = (uint16_t)((reflect->bins[2u * pair] + reflect->bins[2u * pair + 1u]) / 2u);
    reflect->full = REFLECT_BINS / 2u;
    reflect->width = (uint16_t)(2u * reflect->width);
}

void reflect_add(struct reflect *reflect, uint16_t level) {
    if (reflect->full == REFLECT_BINS) {
        if (reflect->width == WIDTH_MAX)
            return;
        fold(reflect);
    }
    reflect->sum += level;
    if (++reflect->added < reflect->width)
        return;
    reflect->bins[reflect->full++] = (uint16_t)(reflect->sum / reflect->width);
    reflect->sum = 0;
    reflect->added = 0;
}

uint16_t reflect_mean(const struct reflect *reflect) {
    const uint8_t half = (uint8_t)((reflect->full + 1u) / 2u);
    uint16_t sum = 0;
    if (half == 0)
        return 0;
    for (uint8_t bin = 0; bin < half; bin++)
        sum = (uint16_t)(sum + reflect->bins[bin]);
    return (uint16_t)(sum / half);
}
