"""Adds rows to the primary, one after the other, and prints each that was committed."""

import sys
import time

import psycopg

hosts, ports = sys.argv[1], sys.argv[2]
connection = None
row = 0
while True:
    start = time.monotonic()
    while True:
        try:
            if connection is None:
                connection = psycopg.connect(
                    host=hosts, port=ports, user="postgres", password="secret", dbname="postgres",
                    target_session_attrs="read-write", connect_timeout=2, autocommit=True,
                    options="-c statement_timeout=5000")
                connection.execute("CREATE TABLE IF NOT EXISTS acknowledged (id bigint PRIMARY KEY)")
            connection.execute("INSERT INTO acknowledged VALUES (%s) ON CONFLICT DO NOTHING", (row,))
            break
        except psycopg.Error as error:
            print(f"refused {row}: {str(error).splitlines()[0] if str(error) else error!r}", flush=True)
            if connection is not None:
                connection.close()
            connection = None
            time.sleep(0.2)
    print(f"acknowledged {row} after {int((time.monotonic() - start) * 1000)} ms", flush=True)
    row += 1
    time.sleep(0.005)
