/* The table and the values in force in, text for people out: --help, --dump-config, the start-up line, and
 * the nearest name. Always holds: no secret and no password of a connection string is in any of them. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config_private.h"

static const char masked[] = "****";

bool config_pair_is_secret(const char *name)
{
    static const char *const words[] = {"password", "secret", ".pem", "oauthbearer.config", "token", "jaas"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasestr(name, words[i]) != NULL)
            return true;
    }
    return false;
}

/* scheme://…, and not key=value text whose value happens to hold a URI. */
static bool is_uri(const char *value)
{
    const char *scheme = strstr(value, "://");
    return scheme != NULL && strcspn(value, "= \t'") > (size_t)(scheme - value);
}

/* user:password@ of a URI: everything between the first ':' of the user information and the last '@'. libpq
 * takes a '?' as a part of the password, so a '?' ends nothing here: rather too much is hidden. */
static const char *mask_authority(const char *value, struct buffer *out)
{
    if (!is_uri(value))
        return value;
    const char *begin = strstr(value, "://") + 3, *at = strrchr(begin, '@');
    const char *colon = at == NULL ? NULL : memchr(begin, ':', (size_t)(at - begin));
    const char *path = colon == NULL ? NULL : memchr(begin, '/', (size_t)(colon - begin));
    if (colon == NULL || path != NULL)
        return value;
    buffer_add(out, value, (size_t)(colon + 1 - value));
    buffer_add_text(out, masked);
    return at;
}

/* An unquoted value of the key=value form: to a blank that no backslash takes away. What follows without a
 * '=' is the rest of a password somebody forgot to quote. */
static const char *skip_bare_value(const char *at)
{
    for (;;) {
        for (; *at != '\0' && *at != ' ' && *at != '\t'; at++) {
            if (*at == '\\' && at[1] != '\0')
                at++;
        }
        const char *word = at + strspn(at, " \t");
        const char *end = word + strcspn(word, "= \t");
        if (word == end || end[strspn(end, " \t")] == '=')
            return at;
        at = end;
    }
}

/* password=… or sslpassword = '…': returns what follows the value, which is not written. */
static const char *skip_value(const char *at, bool in_uri)
{
    if (in_uri)
        return at + strcspn(at, "&");
    if (*at != '\'')
        return skip_bare_value(at);
    for (at++; *at != '\0' && *at != '\''; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
    }
    return *at == '\'' ? at + 1 : at;
}

void config_mask_uri(const char *value, struct buffer *out)
{
    const char *rest = mask_authority(value, out);
    for (;;) {
        const char *word = strcasestr(rest, "password");
        if (word == NULL)
            break;
        const char *after = word + strlen("password");
        const char *equals = after + strspn(after, " \t");
        if (*equals != '=') {
            buffer_add(out, rest, (size_t)(after - rest));
            rest = after;
            continue;
        }
        const char *begin = equals + 1 + strspn(equals + 1, " \t");
        buffer_add(out, rest, (size_t)(begin - rest));
        buffer_add_text(out, masked);
        rest = skip_value(begin, is_uri(value));
    }
    buffer_add_text(out, rest);
}

void config_mask(const struct config_entry *entry, struct buffer *out)
{
    bool secret = entry->key != NULL ? entry->key->type == CONFIG_SECRET
                                     : entry->named == NULL && config_pair_is_secret(entry->name);
    if (secret && entry->value[0] != '\0')
        buffer_add_text(out, masked);
    else if (entry->key != NULL && entry->key->type == CONFIG_URI)
        config_mask_uri(entry->value, out);
    else
        buffer_add_text(out, entry->value);
}

static void dump_entry(const struct config_entry *entry, struct buffer *out)
{
    if (entry->path != NULL) {
        buffer_printf(out, "%s_file = %s\n", entry->name, entry->path);
        return;
    }
    buffer_printf(out, "%s =%s", entry->name, entry->value[0] == '\0' ? "" : " ");
    config_mask(entry, out);
    buffer_add_byte(out, '\n');
}

void config_dump(const struct config *config, struct buffer *out)
{
    for (size_t i = 0; i < config->table->section_count; i++) {
        const struct config_section *section = &config->table->sections[i];
        if (section->kind != CONFIG_NAMED)
            buffer_printf(out, "%s[%s]\n", i == 0 ? "" : "\n", section->name);
        for (size_t j = 0; j < config->entry_count; j++) {
            const struct config_entry *entry = &config->entries[j];
            if (entry->section != section)
                continue;
            if (entry->name[0] == '\0')
                buffer_printf(out, "\n[%s.%s]\n", section->name, entry->named);
            else
                dump_entry(entry, out);
        }
    }
}

void config_summary(const struct config *config, struct buffer *out)
{
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        if (entry->origin == FROM_DEFAULT || entry->named != NULL)
            continue;
        buffer_printf(out, "%s%s.%s=", out->bytes == 0 ? "" : " ", entry->section->name, entry->name);
        if (entry->path != NULL)
            buffer_printf(out, "<%s>", entry->path);
        else
            config_mask(entry, out);
    }
}

static void help_key(const struct config_key *key, struct buffer *out)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s", key->key, config_key_takes_file(key) ? " (or _file)" : "");
    buffer_printf(out, "  %-28s %s", name, key->help);
    if (key->choices != NULL)
        buffer_printf(out, " [%s]", key->choices);
    if ((key->flags & CONFIG_REQUIRED) != 0)
        buffer_add_text(out, " (required)\n");
    else if (key->fallback[0] != '\0')
        buffer_printf(out, " (%s)\n", key->fallback);
    else
        buffer_add_byte(out, '\n');
}

void config_help(const struct config_table *table, struct buffer *out)
{
    for (size_t i = 0; i < table->section_count; i++) {
        const struct config_section *section = &table->sections[i];
        buffer_printf(out, "\n[%s%s]  %s\n", section->name, section->kind == CONFIG_NAMED ? ".NAME" : "",
                      section->help);
        for (size_t j = 0; j < section->key_count; j++)
            help_key(&section->keys[j], out);
        for (const struct config_pair *pair = section->defaults; pair != NULL && pair->key != NULL; pair++)
            buffer_printf(out, "  %-28s (%s)\n", pair->key, pair->value);
    }
}

/* Levenshtein's distance with a swap of neighbours counted once. Names are at most CONFIG_NAME_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][CONFIG_NAME_MAX + 2];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    if (a_bytes > CONFIG_NAME_MAX || b_bytes > CONFIG_NAME_MAX)
        return CONFIG_NAME_MAX;
    for (size_t j = 0; j <= b_bytes; j++) {
        last[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a_bytes; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            now[j] = swapped && before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_bytes];
}

const char *config_nearest(const char *written, const char *nearest, const char *candidate, size_t *distance)
{
    size_t found = edit_distance(written, candidate);
    size_t bytes = strlen(written), most = bytes <= 4 ? 1 : bytes <= 8 ? 2 : bytes / 3;
    if (found > most || (nearest != NULL && found >= *distance))
        return nearest;
    *distance = found;
    return candidate;
}
