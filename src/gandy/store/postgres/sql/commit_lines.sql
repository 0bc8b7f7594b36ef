-- commit_lines: adds lines of tasks.
INSERT INTO {schema}.lines (key, first, packed)
SELECT %(lines_0)s[i], %(lines_1)s[i], %(lines_2)s[i] FROM fence{rows lines_2}
