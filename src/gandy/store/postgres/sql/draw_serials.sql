-- draw_serials: some serials for keys of new jobs.
SELECT nextval('{schema}.serials') FROM generate_series(1, %(count)s::int)
