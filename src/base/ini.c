/* Bytes in, lines out: the parser of the configuration file, and nothing else. It reads a span that needs
 * no NUL at its end, allocates nothing, and ends at the first line it cannot read, naming it. Fuzzed. */
#include <string.h>

#include "base/config.h"

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static struct span trim(struct span text)
{
    while (text.bytes > 0 && is_blank(text.at[0])) {
        text.at++;
        text.bytes--;
    }
    while (text.bytes > 0 && is_blank(text.at[text.bytes - 1]))
        text.bytes--;
    return text;
}

/* Names of sections and keys: letters, digits and . _ - */
static bool is_name(struct span name)
{
    if (name.bytes == 0 || name.bytes > CONFIG_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.bytes; i++) {
        char byte = name.at[i];
        if (!(byte >= 'a' && byte <= 'z') && !(byte >= 'A' && byte <= 'Z') && !(byte >= '0' && byte <= '9') &&
            byte != '.' && byte != '_' && byte != '-')
            return false;
    }
    return true;
}

static enum status refuse(struct fault *fault, int number, const char *what)
{
    fault_set(fault, "config", "%d: %s", number, what);
    return ST_REJECT;
}

static enum status read_line(struct config_line *line, struct span text, struct fault *fault)
{
    line->key = line->value = (struct span){0};
    if (text.at[0] == '[') {
        struct span name = {text.at + 1, text.bytes - 1};
        if (name.bytes == 0 || name.at[name.bytes - 1] != ']')
            return refuse(fault, line->number, "a section's head must end with ']'");
        name.bytes--;
        line->section = trim(name);
        return is_name(line->section) ? ST_OK : refuse(fault, line->number, "not a section's name");
    }
    const char *equals = memchr(text.at, '=', text.bytes);
    if (equals == NULL)
        return refuse(fault, line->number, "neither \"key = value\", nor [section], nor a comment");
    if (line->section.bytes == 0)
        return refuse(fault, line->number, "a key before the first [section]");
    line->key = trim((struct span){text.at, (size_t)(equals - text.at)});
    line->value = trim((struct span){equals + 1, text.bytes - (size_t)(equals - text.at) - 1});
    return is_name(line->key) ? ST_OK : refuse(fault, line->number, "not a key's name before '='");
}

enum status config_parse(struct span text, config_visit *visit, void *context, struct fault *fault)
{
    struct config_line line = {.number = 0};
    if (text.bytes > CONFIG_FILE_BYTES_MAX)
        return refuse(fault, 0, "the file is over 1 MiB");
    if (text.bytes >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0) { /* an editor's byte order mark */
        text.at += 3;
        text.bytes -= 3;
    }
    while (text.bytes > 0) {
        const char *end = memchr(text.at, '\n', text.bytes);
        size_t bytes = end == NULL ? text.bytes : (size_t)(end - text.at);
        struct span content = trim((struct span){text.at, bytes});
        text.at += bytes + (end != NULL);
        text.bytes -= bytes + (end != NULL);
        line.number++;
        if (content.bytes == 0 || content.at[0] == '#' || content.at[0] == ';')
            continue;
        if (memchr(content.at, '\0', content.bytes) != NULL)
            return refuse(fault, line.number, "a NUL byte");
        enum status status = read_line(&line, content, fault);
        if (status == ST_OK)
            status = visit(context, &line, fault);
        if (status != ST_OK)
            return status;
    }
    return ST_OK;
}
