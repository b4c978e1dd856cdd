/* Configuration: one table a binary drives parsing, --help, --check-config, --dump-config and the start-up
 * line. Precedence: flags, environment, file, defaults.
 *
 * File: ini. "[section]", "key = value", comments only on lines of their own that begin with '#' or ';'
 * (a value may hold both). No quoting, no continuation; blanks around key and value go. A key given twice,
 * an unknown key or section, a line that is none of these: refused with file, line and the nearest name.
 * Environment: BELFRY_<SECTION>_<KEY>, upper case; dots of a [kafka] property as '_'.
 * Secrets: key or key_file (a path; one newline at the end goes). A file others can read is a warning.
 * Every text a settings struct points to belongs to struct config and lives until config_done. */
#ifndef BELFRY_BASE_CONFIG_H
#define BELFRY_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"

enum {
    CONFIG_FILE_BYTES_MAX = 1024 * 1024,
    CONFIG_NAME_MAX = 128,
    CONFIG_PAIRS_MAX = 256, /* of a pass-through section */
    CONFIG_NAMED_MAX = 64,  /* [feed.NAME] sections */
    CONFIG_LIST_MAX = 64,
    CONFIG_WARNINGS_MAX = 32
};

struct config_pair {
    const char *key, *value;
    int line; /* in the file; 0 when it came from elsewhere */
};

/* A pass-through section, [kafka] or one [feed.NAME], in order. */
struct config_pairs {
    const char *name; /* what stands behind the dot; NULL for a plain section */
    const struct config_pair *pairs;
    size_t count;
    int line; /* of the section's head */
};

struct config_named {
    const struct config_pairs *sections;
    size_t count;
};

struct config_list {
    const char *const *items;
    size_t count;
};

struct config_address {
    const char *host; /* without brackets; "" when the value began with ':': every address */
    uint16_t port;    /* 0: any free port */
};

enum config_type {                  /* the field in the settings struct: */
                   CONFIG_TEXT,     /* const char *, never NULL */
                   CONFIG_URI,      /* const char *; a password in it is masked in dumps; also as key_file */
                   CONFIG_SECRET,   /* const char *; masked, also as key_file */
                   CONFIG_DURATION, /* int64_t, milliseconds: 300ms 30s 15min 24h 30d; 0 needs no unit */
                   CONFIG_SIZE,     /* size_t, bytes: 512B 64KiB 4MiB 1GiB, a bare number is bytes */
                   CONFIG_COUNT,    /* size_t */
                   CONFIG_SHARE,    /* double, 0 < x <= 1 */
                   CONFIG_BOOL,     /* bool: on off */
                   CONFIG_ADDRESS,  /* struct config_address: host:port, [::1]:port, :port */
                   CONFIG_CHOICE,   /* unsigned or an enum: place in choices */
                   CONFIG_CHOICES,  /* unsigned: bit mask of places in choices; list by commas or blanks, at
                                       least one */
                   CONFIG_LIST      /* struct config_list: by commas or blanks */
};

enum config_flags { CONFIG_REQUIRED = 1 }; /* --help says so; config_require enforces it where it is needed */

struct config_key {
    const char *key;
    enum config_type type;
    unsigned flags;       /* enum config_flags */
    size_t offset;        /* in the section's struct */
    const char *fallback; /* the default as it stands in the shipped ini; "" is empty */
    int64_t min, max;     /* durations in ms, sizes in bytes, counts; both 0: no bounds */
    const char *help;     /* one line */
    const char *choices;  /* "debug|info|warn|error" */
};

enum config_section_kind {
    CONFIG_KEYS,  /* keys of the table below, into the struct at offset */
    CONFIG_PAIRS, /* any key, into a struct config_pairs */
    CONFIG_NAMED  /* [name.ANYTHING], file only, into a struct config_named */
};

struct config_section {
    const char *name;
    enum config_section_kind kind;
    size_t offset; /* of the section's struct in the binary's settings struct */
    const struct config_key *keys;
    size_t key_count;
    const char *help;
    const struct config_pair *defaults; /* CONFIG_PAIRS: ended by a NULL key; NULL: none */
    /* CONFIG_PAIRS: a reason why this key may not be set, or NULL. */
    const char *(*refuse)(const char *key);
};

struct config_table {
    const struct config_section *sections;
    size_t section_count;
};

/* A value from a flag: -b, -G, -t, -X. */
struct config_override {
    const char *section, *key, *value;
    const char *flag; /* its long name without "--", for messages */
};

struct config_input {
    const char *path;         /* the file; NULL: none */
    char *const *environment; /* as environ; NULL: none */
    const struct config_override *overrides;
    size_t override_count;
};

struct config_entry;

struct config {
    struct arena arena;
    const struct config_table *table;
    struct config_entry *entries; /* the values in force, private */
    size_t entry_count;
    const char *warnings[CONFIG_WARNINGS_MAX]; /* for the log, once it is open */
    size_t warning_count;
};

/* Adds a warning, cut to one line; CONFIG_WARNINGS_MAX of them are kept. */
__attribute__((format(printf, 2, 3))) void config_warn(struct config *config, const char *format, ...);

void config_init(struct config *config, const struct config_table *table);
void config_done(struct config *config);

/* Reads everything and fills settings (the binary's struct). Blocking file reads.
 * ST_REJECT: the value, key or line at fault; fault.field is "section.key", fault.text has file and line. */
MUST_USE enum status config_load(struct config *config, const struct config_input *input, void *settings,
                                 struct fault *fault);

/* ST_REJECT when the key is empty: what must be given depends on what the process is asked to do. */
MUST_USE enum status config_require(const struct config *config, const char *section, const char *key,
                                    struct fault *fault);

/* For a check made after the load: puts where the value of fault->field ("section.key", "feed.NAME.key") came
 * from, file and line, before the text; a key that [feed.NAME] leaves out came from its head. A default says
 * nothing. Keeps code and field. */
void config_blame(const struct config *config, struct fault *fault);

/* The parser alone: calls visit for each section head (key NULL) and each pair, spans into text.
 * Never reads outside text; ends at the first error. */
struct config_line {
    struct span section, key, value;
    int number;
};
typedef enum status config_visit(void *context, const struct config_line *line, struct fault *fault);
MUST_USE enum status config_parse(struct span text, config_visit *visit, void *context, struct fault *fault);

/* The file that would give these values again: every key, secrets as "****". */
void config_dump(const struct config *config, struct buffer *out);
/* What --help says about the file: sections, keys, defaults, help. */
void config_help(const struct config_table *table, struct buffer *out);
/* The values that are not defaults, masked, "section.key=value …": for the start-up line. */
void config_summary(const struct config *config, struct buffer *out);

/* True for a property of a pass-through section that must not be shown. */
bool config_pair_is_secret(const char *name);
/* "Did you mean": whichever of nearest (NULL: none yet) and candidate is closer to what was written, or
 * nearest when candidate is too far off. *distance is nearest's. */
const char *config_nearest(const char *written, const char *nearest, const char *candidate, size_t *distance);
/* NULL when there is none. */
const char *config_pairs_find(const struct config_pairs *pairs, const char *key);

/* A small secret from a file, NUL-terminated, one newline at its end removed. ST_REJECT when it cannot be
 * read, is empty, holds a NUL or is over bytes_max. Ask config_file_open_to_others for the warning. */
MUST_USE enum status config_read_file(struct arena *arena, const char *path, size_t bytes_max,
                                      struct span *text, struct fault *fault);
bool config_file_open_to_others(const char *path);

#endif
