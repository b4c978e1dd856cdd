# The reader against a model of its contract: system_reader_model --seed N repeats a history.
belfry_program(system_reader_model SOURCES reader_model_test.c reader_model.c reader_model_run.c reader_model_export.c reader_history.c
    LINK belfry_store belfry_reader_client)
belfry_system(reader_2_model system_reader_model reader/model 300)

# What an operator sets for the role; what the feed is sorted by.
belfry_program(system_reader_settings SOURCES reader_settings_test.c LINK belfry_wire belfry_reader_client)
belfry_system(reader_1_role_settings system_reader_settings reader/role_settings 60)
belfry_system(reader_3_created_at system_reader_settings reader/created_at 60)
