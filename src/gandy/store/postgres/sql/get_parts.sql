-- get_parts: gets the last part of each family.
SELECT family, max(part) FROM {schema}.parts GROUP BY family
