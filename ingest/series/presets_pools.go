package series

func poolSignals() []Signal {
	return []Signal{
		{Name: "pool_wait", Meaning: "waiting for a connection of a pool", Unit: "requests",
			Hint: "database/sql: prometheus.MustRegister(collectors.NewDBStatsCollector(db, name))", Presets: poolWait()},
		{Name: "pool_use", Meaning: "the fullest pool's share in use", Unit: "share",
			Hint: "as pool_wait; a pool without a maximum has no share", Presets: poolUse()},
		{Name: "pool_timeouts", Meaning: "waits for a connection that gave up", Unit: "1/s",
			Hint: "HikariCP, pgx and OpenTelemetry's database clients count them; database/sql does not", Presets: poolTimeouts()},
	}
}

// A pending gauge is the number waiting. A timer of waits adds up the seconds
// waited in a second, the same number, but credits them when the wait ends:
// it stands still while everything hangs. Where there are both the larger counts.
func poolWait() []Preset {
	return []Preset{
		{Source: "database/sql", Expr: rate("go_sql_wait_duration_seconds_total")},
		{Source: "HikariCP by Micrometer", Expr: level("hikaricp_connections_pending")},
		{Source: "HikariCP by Micrometer", Expr: rate("hikaricp_connections_acquire_seconds_sum")},
		{Source: "HikariCP", Expr: level("hikaricp_pending_threads")},
		{Source: "HikariCP", Expr: rate("hikaricp_connection_acquired_nanos_sum") + " / 1e9"},
		{Source: "pgx by IBM/pgxpoolprometheus", Expr: rate("pgxpool_empty_acquire_wait_time_ns") + " / 1e9"},
		{Source: "pgx by IBM/pgxpoolprometheus", Rank: 1, Expr: rate("pgxpool_acquire_duration_ns") + " / 1e9"},
		spelled("db.client.connection.pending_requests", "", Preset{Expr: level("METRIC")}),
		spelled("db.client.connection.wait_time", "seconds", Preset{Expr: rate("METRIC_sum")}),
		spelled("db.client.connections.pending_requests", "", Preset{Expr: level("METRIC")}),
		spelled("db.client.connections.wait_time", "milliseconds", Preset{Expr: thousandth(rate("METRIC_sum"))}),
		spelled("db.sql.connection.wait_duration", "milliseconds_total", Preset{Source: "XSAM/otelsql", Expr: thousandth(rate("METRIC"))}),
		{Source: "Reactor Netty", Expr: level("reactor_netty_connection_provider_pending_connections")},
		{Source: "Reactor Netty", Expr: rate("reactor_netty_connection_provider_pending_connections_time_seconds_sum")},
		{Source: "HAProxy", Expr: level("haproxy_backend_current_queue")},
		{Source: "Envoy", Expr: level("envoy_cluster_upstream_rq_pending_active")},
	}
}

func poolUse() []Preset {
	// ignoring are labels that the use has and the limit has not.
	share := func(used, limit, ignoring string) string {
		return "max" + by + "(avg_over_time(" + used + window + ") / ignoring (" + ignoring + ") (last_over_time(" + limit + window + ") > 0))"
	}
	otel := func(use, limit string) Preset {
		return spelled(use, "", Preset{Expr: share(`METRIC{state!="idle",db_client_connection_state!="idle"}`, `{__name__=~"`+limit+`"}`, "state, db_client_connection_state")})
	}
	return []Preset{
		{Source: "database/sql", Expr: share("go_sql_in_use_connections", "go_sql_max_open_connections", "")},
		{Source: "HikariCP by Micrometer", Expr: share("hikaricp_connections_active", "hikaricp_connections_max", "")},
		{Source: "HikariCP", Expr: share("hikaricp_active_connections", "hikaricp_max_connections", "")},
		{Source: "pgx by IBM/pgxpoolprometheus", Expr: share("pgxpool_acquired_conns", "pgxpool_max_conns", "")},
		{Source: "pgx by cmackenzie1/pgxpool-prometheus", Expr: share("pgx_pool_acquire_connections", "pgx_pool_max_connections", "")},
		otel("db.client.connection.count", "db.client.connection.max"),
		otel("db.client.connections.usage", "db.client.connections.max"),
		spelled("db.sql.connection.open", "", Preset{Source: "XSAM/otelsql",
			Expr: share(`METRIC{status="inuse"}`, `{__name__=~"db.sql.connection.max_open"}`, "status")}),
		{Source: "Spring JDBC", Expr: share("jdbc_connections_active", "jdbc_connections_max", "")},
		{Source: "Reactor Netty", Expr: share("reactor_netty_connection_provider_active_connections", "reactor_netty_connection_provider_max_connections", "")},
		// 2^31-1 threads is Java's way to set no maximum.
		{Source: "Micrometer", Expr: "max" + by + "(avg_over_time(executor_active_threads" + window + ") / (last_over_time(executor_pool_max_threads" + window + ") > 0 < 2147483647))"},
	}
}

func poolTimeouts() []Preset {
	return []Preset{
		{Source: "HikariCP by Micrometer", Expr: rate("hikaricp_connections_timeout_total")},
		{Source: "HikariCP", Expr: rate("hikaricp_connection_timeout_total")},
		{Source: "pgx by IBM/pgxpoolprometheus", Expr: rate("pgxpool_canceled_acquire_count")},
		{Source: "pgx by cmackenzie1/pgxpool-prometheus", Expr: rate("pgx_pool_canceled_acquire_count")},
		spelled("db.client.connection.timeouts", "total", Preset{Expr: rate("METRIC")}),
		spelled("db.client.connections.timeouts", "total", Preset{Expr: rate("METRIC")}),
		{Source: "Envoy", Expr: rate("envoy_cluster_upstream_rq_pending_overflow")},
	}
}
