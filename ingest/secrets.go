package ingest

import "github.com/contend/contend/ingest/secret"

// hide is a message of contend, which may quote a server, without what was sent
// in secret.
func hide(sent *secret.Sent, msg string) string { return secret.HideValues(sent.Hide(msg)) }

// hideQuote is what a server said without any secret.
func hideQuote(sent *secret.Sent, said string) string {
	return sent.HideWords(secret.Scrub(hide(sent, said)))
}

// hideError is err with the secrets out of its message.
func hideError(sent *secret.Sent, err error) error {
	if err == nil {
		return nil
	}
	if text := hide(sent, err.Error()); text != err.Error() {
		return &hiddenError{text, err}
	}
	return err
}

// hiddenError is an error whose own message is not to be shown.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
