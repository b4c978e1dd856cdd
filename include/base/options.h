/* Command lines in kcat's manner: -b -G -t -X -F -q -v -V -h, --help --version --check-config
 * --dump-config, and a table of the binary's own long flags and sub-commands.
 *
 * Short flags may be joined (-qv) and carry their value (-bHOST); long flags take --name value and
 * --name=value; "--" ends the flags. A flag given twice is refused unless its row says so. */
#ifndef BELFRY_BASE_OPTIONS_H
#define BELFRY_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/config.h"
#include "base/status.h"

enum { OPTIONS_FOUND_MAX = 64, OPTIONS_OVERRIDES_MAX = 64 };

enum options_standard { /* which of the shared flags a binary takes, beyond -F -q -v -V -h */
                        OPTIONS_KAFKA = 1 /* -b -G -t -X */
};

struct option_row {
    char letter; /* 0: none */
    bool repeatable;
    const char *name;     /* without "--"; NULL: none */
    const char *argument; /* how --help calls the value; NULL: takes none */
    const char *help;
    const char *section, *key; /* the config key it stands for; NULL: found in options.found */
    const char *with;          /* the flag without which this one means nothing; NULL: it stands alone */
};

/* belfry-reader page …: the first word that is no flag. Its flags come after it. */
struct option_command {
    const char *name, *help;
    const struct option_row *rows;
    size_t row_count;
};

struct options_table {
    unsigned standard;
    const char *topic_key; /* with OPTIONS_KAFKA: the key of [topics] that -t sets */
    const struct option_row *rows;
    size_t row_count;
    const struct option_command *commands;
    size_t command_count;
};

enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_CHECK_CONFIG, OPTIONS_DUMP_CONFIG };

struct option_found {
    const char *name;  /* the row's name */
    const char *value; /* "" when it takes none */
};

/* Texts point into argv, or into the rows. */
struct options {
    enum options_action action;
    const char *config_path;              /* -F; NULL: none */
    int quiet, verbose;                   /* how often -q, -v */
    const struct option_command *command; /* NULL: none */
    struct option_found found[OPTIONS_FOUND_MAX];
    size_t found_count;
    struct config_override overrides[OPTIONS_OVERRIDES_MAX];
    size_t override_count;
    char **split; /* private: copies of -X's names */
};

/* ST_REJECT: fault.text is what to print before "--help says more"; exit EXIT_USAGE. */
MUST_USE enum status options_parse(const struct options_table *table, int argc, char **argv,
                                   struct options *options, struct fault *fault);
void options_done(struct options *options);

/* The value of a flag of the table or the command, NULL when it was not given; the n-th of a repeatable one.
 */
const char *options_value(const struct options *options, const char *name, size_t nth);
bool options_given(const struct options *options, const char *name);

/* Usage, commands, flags. */
void options_help(const struct options_table *table, const char *program, const char *summary,
                  struct buffer *out);

#endif
