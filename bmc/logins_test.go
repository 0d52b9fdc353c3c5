package bmc

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestLoginsUnderWay: logins at the same time do not exceed the budget together. What ends without an answer gives its place back, and accepted credentials need none.
func TestLoginsUnderWay(t *testing.T) {
	g := NewWithT(t)
	all, now, address := newLogins(), time.Now(), netip.MustParseAddr("192.0.2.7")
	job := func(id byte) (context.Context, *login) {
		return all.withLogin(t.Context(), Endpoint{Username: "root"}, credentialsID{id})
	}
	admit := func(ctx context.Context) error { return admitLogin(ctx, address, "443") }
	first, one := job(1)
	second, two := job(2)
	third, three := job(3)
	g.Expect(LoginAccepted(first)).To(BeFalse())
	g.Expect(admit(first)).To(Succeed())
	g.Expect(admit(first)).To(Succeed(), "one job connects several times")
	g.Expect(admit(second)).To(Succeed())
	g.Expect(RetryAfter(admit(third))).To(Equal(loginPause))
	one.end(&Error{Kind: Unreachable, Err: errors.New("no answer")}, now)
	g.Expect(admit(third)).To(Succeed())
	two.end(&Error{Kind: Unauthorized, Err: errors.New("no")}, now)
	three.end(nil, now)
	again, _ := job(3)
	g.Expect(LoginAccepted(again)).To(BeTrue())
	fourth, four := job(4)
	g.Expect(admit(fourth)).To(Succeed())
	four.end(&Error{Kind: Unauthorized, Err: errors.New("no")}, now)
	fifth, five := job(5)
	g.Expect(RetryAfter(admit(fifth))).To(BeNumerically("~", loginWindow, time.Minute))
	five.end(admit(fifth), now)
	g.Expect(admit(again)).To(Succeed(), "accepted before")
	g.Expect(admitLogin(fifth, address, "8443")).To(Succeed(), "another BMC behind the address")
	g.Expect(admitLogin(fifth, address, "623")).NotTo(Succeed(), "IPMI has the same users")
	g.Expect(all.underWay).To(HaveLen(1))
	all.forget(now.Add(loginMemory))
	g.Expect(all.refused).To(BeEmpty())
	g.Expect(all.accepted).To(BeEmpty())
}
