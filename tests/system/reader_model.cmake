# The reader against a model of its contract: system_reader_model --seed N repeats a history.
belfry_program(system_reader_model SOURCES reader_model_test.c reader_model.c reader_history.c
    LINK belfry_store belfry_reader_client)
belfry_system(reader_2_model system_reader_model reader/model 300)
