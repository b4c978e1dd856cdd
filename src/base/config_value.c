/* One value in, one field of a settings struct out: the types of the table, each with its spelling and
 * bounds. What is refused is said in one sentence that the caller completes with file and line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_private.h"

/* All digits, no sign, at most INT64_MAX. Returns what follows, or NULL. */
static const char *read_number(const char *text, int64_t *number)
{
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (INT64_MAX - (*at - '0')) / 10)
            return NULL;
        value = value * 10 + (*at - '0');
    }
    if (at == text)
        return NULL;
    *number = value;
    return at;
}

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
static const struct unit sizes[] = {{"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

enum { UNITS = 5 };

static bool read_scaled(const char *text, const struct unit units[UNITS], int64_t *scaled)
{
    int64_t number = 0;
    const char *unit = read_number(text, &number);
    if (unit == NULL)
        return false;
    if (*unit == '\0' && number == 0) {
        *scaled = 0;
        return true;
    }
    for (int i = 0; i < UNITS; i++) {
        if (strcmp(unit, units[i].name) == 0 && number <= INT64_MAX / units[i].factor) {
            *scaled = number * units[i].factor;
            return true;
        }
    }
    return false;
}

/* The largest unit that gives a whole number. */
static void write_scaled(int64_t value, const struct unit units[UNITS], char text[32])
{
    int best = 0;
    for (int i = 1; i < UNITS; i++) {
        if (value != 0 && value % units[i].factor == 0)
            best = i;
    }
    snprintf(text, 32, "%lld%s", (long long)(value / units[best].factor), value == 0 ? "" : units[best].name);
}

static enum status refuse_bounds(const struct config_key *key, const char *value, const struct unit *units,
                                 struct fault *fault)
{
    char least[32], most[32];
    if (units != NULL) {
        write_scaled(key->min, units, least);
        write_scaled(key->max, units, most);
    } else {
        snprintf(least, sizeof least, "%lld", (long long)key->min);
        snprintf(most, sizeof most, "%lld", (long long)key->max);
    }
    fault_set(fault, "config", "\"%.60s\" is outside %s to %s", value, least, most);
    return ST_REJECT;
}

static enum status store_number(const struct config_key *key, const char *value, void *field,
                                struct fault *fault)
{
    int64_t number = 0;
    const struct unit *units = NULL;
    bool good;
    const char *form;
    if (key->type == CONFIG_DURATION) {
        units = durations;
        form = "a duration such as 300ms, 30s, 15min, 24h, 30d";
        good = read_scaled(value, durations, &number);
    } else if (key->type == CONFIG_SIZE) {
        units = sizes;
        form = "a size such as 64KiB, 4MiB";
        good = read_scaled(value, sizes, &number);
    } else {
        form = "a whole number";
        const char *rest = read_number(value, &number);
        good = rest != NULL && *rest == '\0';
    }
    if (!good) {
        fault_set(fault, "config", "\"%.60s\" is not %s", value, form);
        return ST_REJECT;
    }
    if ((key->min != 0 || key->max != 0) && (number < key->min || number > key->max))
        return refuse_bounds(key, value, units, fault);
    if (key->type == CONFIG_DURATION)
        *(int64_t *)field = number;
    else
        *(size_t *)field = (size_t)number;
    return ST_OK;
}

static enum status store_share(const char *value, double *field, struct fault *fault)
{
    char *end = NULL;
    double share = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : 0;
    if (end == NULL || *end != '\0' || !isfinite(share) || share <= 0 || share > 1) {
        fault_set(fault, "config", "\"%.60s\" is not a share above 0 and at most 1, such as 0.5", value);
        return ST_REJECT;
    }
    *field = share;
    return ST_OK;
}

static enum status store_bool(const char *value, bool *field, struct fault *fault)
{
    bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0) {
        fault_set(fault, "config", "\"%.60s\" is neither on nor off", value);
        return ST_REJECT;
    }
    *field = on;
    return ST_OK;
}

static enum status store_address(struct arena *arena, const char *value, struct config_address *field,
                                 struct fault *fault)
{
    const char *colon = strrchr(value, ':');
    int64_t port = 0;
    const char *rest = colon == NULL ? NULL : read_number(colon + 1, &port);
    struct span host = {value, colon == NULL ? 0 : (size_t)(colon - value)};
    bool bracketed = host.bytes >= 2 && host.at[0] == '[' && host.at[host.bytes - 1] == ']';
    if (bracketed)
        host = (struct span){host.at + 1, host.bytes - 2};
    bool colons = host.bytes > 0 && memchr(host.at, ':', host.bytes) != NULL;
    if (rest == NULL || *rest != '\0' || port > 65535 || colons != bracketed || host.bytes > 255) {
        fault_set(fault, "config", "\"%.60s\" is not an address such as 127.0.0.1:8080, [::1]:8080, :8080",
                  value);
        return ST_REJECT;
    }
    char *copy = arena_copy(arena, host);
    if (copy == NULL)
        return config_refuse_size(fault);
    *field = (struct config_address){.host = copy, .port = (uint16_t)port};
    return ST_OK;
}

/* The place of word in "a|b|c", or -1. */
static int choice_index(const char *choices, struct span word)
{
    int index = 0;
    for (const char *at = choices;; index++) {
        size_t bytes = strcspn(at, "|");
        if (span_same((struct span){at, bytes}, word))
            return index;
        if (at[bytes] == '\0')
            return -1;
        at += bytes + 1;
    }
}

static enum status refuse_choice(const struct config_key *key, struct span word, struct fault *fault)
{
    fault_set(fault, "config", "\"%.*s\" is none of %s", word.bytes > 60 ? 60 : (int)word.bytes, word.at,
              key->choices);
    return ST_REJECT;
}

/* The next word of a list; false at its end. */
static bool next_word(const char **at, struct span *word)
{
    *at += strspn(*at, ", \t");
    *word = (struct span){*at, strcspn(*at, ", \t")};
    *at += word->bytes;
    return word->bytes > 0;
}

static enum status store_choices(const struct config_key *key, const char *value, unsigned *field,
                                 struct fault *fault)
{
    unsigned mask = 0;
    struct span word;
    for (const char *at = value; next_word(&at, &word);) {
        int index = choice_index(key->choices, word);
        if (index < 0)
            return refuse_choice(key, word, fault);
        mask |= 1U << index;
    }
    if (mask == 0) {
        fault_set(fault, "config", "at least one of %s is needed", key->choices);
        return ST_REJECT;
    }
    *field = mask;
    return ST_OK;
}

static enum status store_list(struct arena *arena, const char *value, struct config_list *field,
                              struct fault *fault)
{
    const char **items = arena_array(arena, CONFIG_LIST_MAX, sizeof *items);
    size_t count = 0;
    struct span word;
    for (const char *at = value; items != NULL && next_word(&at, &word);) {
        if (count == CONFIG_LIST_MAX) {
            fault_set(fault, "config", "more than %d entries", CONFIG_LIST_MAX);
            return ST_REJECT;
        }
        items[count] = arena_copy(arena, word);
        if (items[count++] == NULL)
            items = NULL;
    }
    if (items == NULL)
        return config_refuse_size(fault);
    *field = (struct config_list){.items = items, .count = count};
    return ST_OK;
}

static enum status store_choice(const struct config_key *key, const char *value, unsigned *field,
                                struct fault *fault)
{
    int index = choice_index(key->choices, span_of(value));
    if (index < 0)
        return refuse_choice(key, span_of(value), fault);
    *field = (unsigned)index;
    return ST_OK;
}

enum status config_value_store(struct arena *arena, const struct config_key *key, const char *value,
                               void *field, struct fault *fault)
{
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_URI:
    case CONFIG_SECRET:
        *(const char **)field = value;
        return ST_OK;
    case CONFIG_DURATION:
    case CONFIG_SIZE:
    case CONFIG_COUNT:
        return store_number(key, value, field, fault);
    case CONFIG_SHARE:
        return store_share(value, field, fault);
    case CONFIG_BOOL:
        return store_bool(value, field, fault);
    case CONFIG_ADDRESS:
        return store_address(arena, value, field, fault);
    case CONFIG_CHOICE:
        return store_choice(key, value, field, fault);
    case CONFIG_CHOICES:
        return store_choices(key, value, field, fault);
    case CONFIG_LIST:
        return store_list(arena, value, field, fault);
    }
    return ST_REJECT;
}
