/* What the files of the configuration share: the values in force, and the checks of one value. */
#ifndef BELFRY_CONFIG_PRIVATE_H
#define BELFRY_CONFIG_PRIVATE_H

#include <sys/types.h>

#include "base/config.h"

enum config_origin { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };

/* One value in force. Texts live in the config's arena, the table or the environment. */
struct config_entry {
    const struct config_section *section;
    const struct config_key *key; /* NULL in a pass-through section */
    const char *named;            /* of [feed.NAME]; NULL elsewhere */
    const char *name;             /* the key, without _file */
    const char *value;
    const char *path; /* the file the secret came from; NULL: given directly */
    enum config_origin origin;
    const char *where; /* "belfry.ini:12", "BELFRY_RUN_ROLES", "-b", "default" */
    int line;
};

/* Whether x may be given as x_file: secrets, and connection strings, which hold passwords. */
static inline bool config_key_takes_file(const struct config_key *key)
{
    return key->type == CONFIG_SECRET || key->type == CONFIG_URI;
}

/* Always ST_REJECT: the configuration is too large. */
enum status config_refuse_size(struct fault *fault);

/* At most bytes_max + 1 bytes of a file; -1 with errno. */
ssize_t config_read_whole(const char *path, char *bytes, size_t bytes_max);

/* Every entry into its place in the settings. */
MUST_USE enum status config_store(struct config *config, char *settings, struct fault *fault);

/* Writes the field; ST_REJECT with one sentence in fault->text, without the value when it is secret. */
MUST_USE enum status config_value_store(struct arena *arena, const struct config_key *key, const char *value,
                                        void *field, struct fault *fault);

/* The value as a dump may show it. */
void config_mask(const struct config_entry *entry, struct buffer *out);
/* A URI or connection string with its passwords as ****. */
void config_mask_uri(const char *value, struct buffer *out);

#endif
