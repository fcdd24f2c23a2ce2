"""What `dlx lint` and the tests of a project both need to report findings: forms, the baseline, `dlx.toml`."""
