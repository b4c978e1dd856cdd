/* argv in, what the user asked for out. No getopt: it keeps globals and knows no sub-commands. Everything
 * points into argv or the tables but the property names of -X, which are copied. */
#include "base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_private.h"

/* What a flag does beyond being found; the standard flags are rows too. */
enum meaning {
    MEANS_ROW, /* of the binary's table or the command's */
    MEANS_FILE,
    MEANS_QUIET,
    MEANS_VERBOSE,
    MEANS_PROPERTY,
    MEANS_TOPIC,
    MEANS_ACTION /* MEANS_ACTION + enum options_action */
};

struct standard_row {
    struct option_row row;
    int meaning;
    bool kafka;
};

static const struct standard_row standard_rows[] = {
    {{'F', false, "config", "FILE", "configuration file", NULL, NULL, NULL}, MEANS_FILE, false},
    {{'b', false, "brokers", "HOST:PORT,...", "Kafka brokers", "kafka", "bootstrap.servers", NULL},
     MEANS_ROW,
     true},
    {{'G', false, "group", "NAME", "consumer group", "kafka", "group.id", NULL}, MEANS_ROW, true},
    {{'t', false, "topic", "NAME", "topic to read", NULL, NULL, NULL}, MEANS_TOPIC, true},
    {{'X', true, "property", "NAME=VALUE", "librdkafka property; may be repeated", NULL, NULL, NULL},
     MEANS_PROPERTY,
     true},
    {{'q', true, "quiet", NULL, "log warnings and errors only", NULL, NULL, NULL}, MEANS_QUIET, false},
    {{'v', true, "verbose", NULL, "log for debugging", NULL, NULL, NULL}, MEANS_VERBOSE, false},
    {{0, true, "check-config", NULL, "read the configuration, say what is wrong with it, and exit", NULL,
      NULL, NULL},
     MEANS_ACTION + OPTIONS_CHECK_CONFIG,
     false},
    {{0, true, "dump-config", NULL, "print the configuration in force, secrets masked, and exit", NULL, NULL,
      NULL},
     MEANS_ACTION + OPTIONS_DUMP_CONFIG,
     false},
    {{'V', true, "version", NULL, "print the version and exit", NULL, NULL, NULL},
     MEANS_ACTION + OPTIONS_VERSION,
     false},
    {{'h', true, "help", NULL, "print this and exit", NULL, NULL, NULL}, MEANS_ACTION + OPTIONS_HELP, false},
};

enum { STANDARD_ROWS = sizeof standard_rows / sizeof *standard_rows };

struct parse {
    const struct options_table *table;
    struct options *options;
    struct fault *fault;
    int argc, next;
    char **argv;
};

__attribute__((format(printf, 2, 3))) static enum status refuse(struct parse *parse, const char *format, ...)
{
    char text[FAULT_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_set(parse->fault, "usage", "%s", text);
    parse->fault->exit_code = EXIT_USAGE;
    return ST_REJECT;
}

/* Whether this binary has the standard flag. */
static bool is_offered(const struct options_table *table, const struct standard_row *standard)
{
    return (!standard->kafka || (table->standard & OPTIONS_KAFKA) != 0) &&
           (standard->meaning != MEANS_TOPIC || table->topic_key != NULL);
}

static bool row_matches(const struct option_row *row, char letter, struct span name)
{
    return letter != 0 ? row->letter == letter : row->name != NULL && span_is(name, row->name);
}

static const struct option_row *find_in(const struct option_row *rows, size_t count, char letter,
                                        struct span name)
{
    for (size_t i = 0; i < count; i++) {
        if (row_matches(&rows[i], letter, name))
            return &rows[i];
    }
    return NULL;
}

/* The command's rows first, then the binary's, then the standard ones. */
static const struct option_row *find_row(const struct parse *parse, char letter, struct span name,
                                         int *meaning)
{
    const struct option_row *row = NULL;
    *meaning = MEANS_ROW;
    if (parse->options->command != NULL)
        row = find_in(parse->options->command->rows, parse->options->command->row_count, letter, name);
    if (row == NULL)
        row = find_in(parse->table->rows, parse->table->row_count, letter, name);
    for (size_t i = 0; i < STANDARD_ROWS && row == NULL; i++) {
        const struct standard_row *standard = &standard_rows[i];
        if (!is_offered(parse->table, standard) || !row_matches(&standard->row, letter, name))
            continue;
        *meaning = standard->meaning;
        row = &standard->row;
    }
    return row;
}

static enum status add_override(struct parse *parse, const struct config_override *override)
{
    struct options *options = parse->options;
    if (options->override_count == OPTIONS_OVERRIDES_MAX)
        return refuse(parse, "too many flags: --%s", override->flag);
    options->overrides[options->override_count++] = *override;
    return ST_OK;
}

/* -X name=value. The name is copied: argv has no NUL behind it. */
static enum status add_property(struct parse *parse, const struct option_row *row, const char *value)
{
    struct options *options = parse->options;
    const char *equals = strchr(value, '=');
    if (equals == NULL || equals == value)
        return refuse(parse, "-X takes NAME=VALUE");
    if (options->split == NULL)
        options->split = calloc(OPTIONS_OVERRIDES_MAX, sizeof *options->split);
    char *name = options->split == NULL ? NULL : strndup(value, (size_t)(equals - value));
    if (name == NULL)
        return refuse(parse, "no memory for -X");
    enum status status =
        add_override(parse, &(const struct config_override){
                                .section = "kafka", .key = name, .value = equals + 1, .flag = row->name});
    if (status != ST_OK)
        free(name);
    else
        options->split[options->override_count - 1] = name;
    return status;
}

static enum status add_found(struct parse *parse, const struct option_row *row, const char *value)
{
    struct options *options = parse->options;
    if (!row->repeatable && options_given(options, row->name))
        return refuse(parse, "--%s is given twice", row->name);
    if (options->found_count == OPTIONS_FOUND_MAX)
        return refuse(parse, "too many flags: --%s", row->name);
    options->found[options->found_count++] = (struct option_found){.name = row->name, .value = value};
    if (row->section == NULL)
        return ST_OK;
    return add_override(parse,
                        &(const struct config_override){
                            .section = row->section, .key = row->key, .value = value, .flag = row->name});
}

static enum status apply(struct parse *parse, const struct option_row *row, int meaning, const char *value)
{
    struct options *options = parse->options;
    struct option_row topic = *row;
    switch (meaning) {
    case MEANS_ROW:
        return add_found(parse, row, value);
    case MEANS_TOPIC:
        topic.section = "topics";
        topic.key = parse->table->topic_key;
        return add_found(parse, &topic, value);
    case MEANS_FILE:
        if (options->config_path != NULL)
            return refuse(parse, "--%s is given twice", row->name);
        options->config_path = value;
        return ST_OK;
    case MEANS_PROPERTY:
        return add_property(parse, row, value);
    case MEANS_QUIET:
        options->quiet++;
        return ST_OK;
    case MEANS_VERBOSE:
        options->verbose++;
        return ST_OK;
    default: /* help wins over version, version over the others */
        if (options->action == OPTIONS_RUN || options->action > (enum options_action)(meaning - MEANS_ACTION))
            options->action = (enum options_action)(meaning - MEANS_ACTION);
        return ST_OK;
    }
}

/* The value of a flag that takes one: attached, or the next word. */
static const char *take_value(struct parse *parse, const char *attached)
{
    if (attached != NULL)
        return attached;
    return parse->next < parse->argc ? parse->argv[parse->next++] : NULL;
}

static const char *nearest_in(const struct option_row *rows, size_t count, const char *written,
                              const char *nearest, size_t *distance)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].name != NULL)
            nearest = config_nearest(written, nearest, rows[i].name, distance);
    }
    return nearest;
}

static enum status refuse_unknown(struct parse *parse, struct span name)
{
    char written[CONFIG_NAME_MAX + 1];
    const struct option_command *command = parse->options->command;
    const char *nearest = NULL;
    size_t distance = 0;
    snprintf(written, sizeof written, "%.*s", (int)(name.bytes % CONFIG_NAME_MAX), name.at);
    if (command != NULL)
        nearest = nearest_in(command->rows, command->row_count, written, nearest, &distance);
    nearest = nearest_in(parse->table->rows, parse->table->row_count, written, nearest, &distance);
    for (size_t i = 0; i < STANDARD_ROWS; i++) {
        if (is_offered(parse->table, &standard_rows[i]))
            nearest = nearest_in(&standard_rows[i].row, 1, written, nearest, &distance);
    }
    if (nearest == NULL)
        return refuse(parse, "unknown flag --%s", written);
    return refuse(parse, "unknown flag --%s; did you mean --%s?", written, nearest);
}

/* A value stays out of every message: it may be a password. */
static enum status parse_long(struct parse *parse, char *word)
{
    int meaning;
    const char *equals = strchr(word, '=');
    struct span name = {word + 2, equals == NULL ? strlen(word + 2) : (size_t)(equals - word - 2)};
    const struct option_row *row = find_row(parse, 0, name, &meaning);
    if (row == NULL)
        return refuse_unknown(parse, name);
    if (row->argument == NULL)
        return equals != NULL ? refuse(parse, "--%s takes no value", row->name)
                              : apply(parse, row, meaning, "");
    const char *value = take_value(parse, equals == NULL ? NULL : equals + 1);
    return value == NULL ? refuse(parse, "--%s needs a value", row->name) : apply(parse, row, meaning, value);
}

/* -qv, -bHOST, -b HOST */
static enum status parse_short(struct parse *parse, char *word)
{
    for (char *at = word + 1; *at != '\0'; at++) {
        int meaning;
        const struct option_row *row = find_row(parse, *at, (struct span){0}, &meaning);
        if (row == NULL)
            return refuse(parse, "unknown flag -%c", *at);
        if (row->argument != NULL) {
            const char *value = take_value(parse, at[1] != '\0' ? at + 1 : NULL);
            return value == NULL ? refuse(parse, "-%c needs a value", *at)
                                 : apply(parse, row, meaning, value);
        }
        enum status status = apply(parse, row, meaning, "");
        if (status != ST_OK)
            return status;
    }
    return ST_OK;
}

static enum status parse_word(struct parse *parse, const char *word)
{
    if (parse->options->command != NULL || parse->table->command_count == 0)
        return refuse(parse, "unexpected argument \"%s\"", word);
    for (size_t i = 0; i < parse->table->command_count; i++) {
        if (strcmp(word, parse->table->commands[i].name) == 0) {
            parse->options->command = &parse->table->commands[i];
            return ST_OK;
        }
    }
    return refuse(parse, "unknown command \"%s\"", word);
}

/* Else --dry-run without the flag it belongs to would start to serve. */
static enum status check_company(struct parse *parse)
{
    for (size_t i = 0; i < parse->table->row_count; i++) {
        const struct option_row *row = &parse->table->rows[i];
        if (row->with != NULL && options_given(parse->options, row->name) &&
            !options_given(parse->options, row->with))
            return refuse(parse, "--%s goes with --%s", row->name, row->with);
    }
    return ST_OK;
}

enum status options_parse(const struct options_table *table, int argc, char **argv, struct options *options,
                          struct fault *fault)
{
    *options = (struct options){.action = OPTIONS_RUN};
    struct parse parse = {table, options, fault, argc, 1, argv};
    enum status status = ST_OK;
    bool flags = true;
    while (parse.next < argc && status == ST_OK) {
        char *word = argv[parse.next++];
        if (flags && strcmp(word, "--") == 0)
            flags = false;
        else if (flags && strncmp(word, "--", 2) == 0)
            status = parse_long(&parse, word);
        else if (flags && word[0] == '-' && word[1] != '\0')
            status = parse_short(&parse, word);
        else
            status = parse_word(&parse, word);
    }
    if (status == ST_OK)
        status = check_company(&parse);
    if (status != ST_OK)
        options_done(options);
    return status;
}

void options_done(struct options *options)
{
    for (size_t i = 0; options->split != NULL && i < OPTIONS_OVERRIDES_MAX; i++)
        free(options->split[i]);
    free(options->split);
    options->split = NULL;
}

const char *options_value(const struct options *options, const char *name, size_t nth)
{
    for (size_t i = 0; i < options->found_count; i++) {
        if (strcmp(options->found[i].name, name) == 0 && nth-- == 0)
            return options->found[i].value;
    }
    return NULL;
}

bool options_given(const struct options *options, const char *name)
{
    return options_value(options, name, 0) != NULL;
}

enum { HELP_COLUMN = 34 };

static void help_row(const struct option_row *row, struct buffer *out)
{
    char flag[80], letter[8] = "    ";
    if (row->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(flag, sizeof flag, "%s--%s%s%s", letter, row->name, row->argument == NULL ? "" : " ",
             row->argument == NULL ? "" : row->argument);
    bool fits = strlen(flag) <= HELP_COLUMN;
    buffer_printf(out, "  %-*s%s%*s%s\n", HELP_COLUMN, flag, fits ? "" : "\n", fits ? 1 : HELP_COLUMN + 3, "",
                  row->help);
}

void options_help(const struct options_table *table, const char *program, const char *summary,
                  struct buffer *out)
{
    buffer_printf(out, "%s: %s\n\nUsage: %s [flags]\n", program, summary, program);
    for (size_t i = 0; i < table->command_count; i++)
        buffer_printf(out, "       %s %s [flags]    %s\n", program, table->commands[i].name,
                      table->commands[i].help);
    buffer_add_text(out, "\nFlags:\n");
    for (size_t i = 0; i < STANDARD_ROWS; i++) {
        const struct standard_row *standard = &standard_rows[i];
        if (is_offered(table, standard))
            help_row(&standard->row, out);
    }
    for (size_t i = 0; i < table->row_count; i++)
        help_row(&table->rows[i], out);
    for (size_t i = 0; i < table->command_count; i++) {
        buffer_printf(out, "\nFlags of %s:\n", table->commands[i].name);
        for (size_t j = 0; j < table->commands[i].row_count; j++)
            help_row(&table->commands[i].rows[j], out);
    }
}
