/* [database], which every binary has: apart from shared_config.c, so that the reader links no provider. */
#include "io/db.h"
#include "shared_config.h"

enum status database_config_check(const struct config *config, const struct database_settings *settings,
                                  struct fault *fault)
{
    enum status status = config_require(config, "database", "uri", fault);
    return status == ST_OK ? db_uri_check(settings->uri, fault) : status;
}
