-- has_results: tells whether a part has a result that is still kept.
SELECT EXISTS (
    SELECT FROM {schema}.results AS r WHERE part = %(part)s
        AND NOT EXISTS (SELECT FROM {schema}.drops AS d WHERE d.number > r.drops AND d.before > r.at))
