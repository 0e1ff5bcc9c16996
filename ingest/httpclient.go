package ingest

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/prometheus/common/config"

	"github.com/contend/contend/ingest/secret"
)

// quotedValue is how the YAML package shows a value of a wrong type, which
// may be a password.
var quotedValue = regexp.MustCompile("`[^`]*`")

// HTTPClient makes a client for Options.HTTP from a file with credentials and
// TLS settings, in the format of promtool's --http.config.file
// (https://prometheus.io/docs/prometheus/latest/configuration/promtool/).
// Paths in it are relative to it. The client follows no redirect to another
// host, which would be sent the credentials: see secret.OnSameHost.
func HTTPClient(configFile string) (*http.Client, error) {
	c, _, err := config.LoadHTTPConfigFile(configFile)
	if err != nil {
		return nil, fmt.Errorf("%s: expected YAML with basic_auth, authorization, tls_config or the like, as for promtool: %s", configFile, hideValues(err))
	}
	client, err := config.NewClientFromConfig(*c, "contend")
	if err != nil {
		return nil, fmt.Errorf("%s: %s; check the files it names", configFile, hideValues(err))
	}
	return secret.OnSameHost(client), nil
}

func hideValues(err error) string {
	return quotedValue.ReplaceAllString(secret.Scrub(err.Error()), "`"+secret.Redacted+"`")
}
