package secret

import (
	"net/url"
	"testing"
)

func TestSent(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("http://al:hunter2%2F%22@h/x?token=s3cr3t%2F&page=second")
	if err != nil {
		t.Fatal(err)
	}
	var s Sent
	s.AddURL(u)
	s.AddHeader("Authorization", []string{"Basic bWU6c3dvcmRmaXNo"}) // me:swordfish
	s.AddHeader("Cookie", []string{"a=chocolate; b=vanilla"})
	s.AddHeader("X-Scope-OrgID", []string{"team 1"})
	s.AddHeader("User-Agent", []string{"contend"})
	s.AddHeader(":path", []string{"/public"})
	for in, want := range map[string]string{
		`hunter2/" hunter2%2F%22 hunter2/\" hunter2/&#34;`: "xxxxx xxxxx xxxxx xxxxx",
		"s3cr3t/ s3cr3t%2F":                       "xxxxx xxxxx",
		"Basic bWU6c3dvcmRmaXNo, swordfish":       "xxxxx, xxxxx",
		"bWU6c3dvcmRmaXNo":                        "xxxxx",
		"chocolate vanilla":                       "xxxxx xxxxx",
		"team 1 team%201":                         "xxxxx xxxxx",
		"al and me, also second, contend /public": "al and me, also second, contend /public",
	} {
		if got := s.Hide(in); got != want {
			t.Errorf("Hide(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := s.HideWords("al and me, also 1 meal"), "xxxxx and xxxxx, also xxxxx meal"; got != want {
		t.Errorf("HideWords = %q, want %q", got, want)
	}
}
