package controllers_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

func version(uid string, n int) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: "dc", Name: "h", UID: types.UID(uid), ResourceVersion: strconv.Itoa(n), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
}

// TestWriteCache: Read returns a written object until the cache shows that version or a version of another writer.
func TestWriteCache(t *testing.T) {
	g := NewWithT(t)
	var n controllers.WriteCache[*v1alpha1.BareMetalHost]
	n.Record(version("a", 2))
	g.Expect(n.Read(version("a", 1)).ResourceVersion).To(Equal("1"), "it was not read before it was written")
	n.Record(version("a", 1))
	n.Record(version("a", 3))
	n.Record(version("a", 5))
	for _, cached := range []int{1, 3} {
		read := n.Read(version("a", cached))
		g.Expect(read.ResourceVersion).To(Equal("5"))
		g.Expect(read.ManagedFields).To(BeNil())
		read.Name = "changed"
	}
	g.Expect(n.Read(version("b", 1)).UID).To(BeEquivalentTo("b"), "another object of the name")
	g.Expect(n.Read(version("a", 1)).ResourceVersion).To(Equal("1"))
	n.Record(version("a", 5))
	g.Expect(n.Read(version("a", 4)).ResourceVersion).To(Equal("4"), "a version of another writer")
	n.Record(version("a", 6))
	n.Forget(types.NamespacedName{Namespace: "dc", Name: "h"})
	g.Expect(n.Read(version("a", 4)).ResourceVersion).To(Equal("4"))
}

// TestWriteCacheOrder: the answers of two writes may be recorded in any order, and after the cache showed them. Read never goes back.
func TestWriteCacheOrder(t *testing.T) {
	g := NewWithT(t)
	var n controllers.WriteCache[*v1alpha1.BareMetalHost]
	n.Read(version("a", 9))
	n.Record(version("a", 11))
	n.Record(version("a", 10))
	g.Expect(n.Read(version("a", 9)).ResourceVersion).To(Equal("11"))
	g.Expect(n.Read(version("a", 11)).ResourceVersion).To(Equal("11"))
	n.Record(version("a", 10))
	g.Expect(n.Read(version("a", 11)).ResourceVersion).To(Equal("11"))
}

// TestConflict: after a conflict nothing is written for that version: until a newer one is read, or for a delay that doubles to 30 seconds.
func TestConflict(t *testing.T) {
	g := NewWithT(t)
	var n controllers.WriteCache[*v1alpha1.BareMetalHost]
	now := time.Now()
	g.Expect(n.Outdated(version("a", 1), now)).To(BeZero())
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		delay := time.Duration(seconds) * time.Second
		n.NoteConflict(version("a", 1), now)
		g.Expect(n.Outdated(version("a", 1), now)).To(Equal(delay))
		now = now.Add(delay)
		g.Expect(n.Outdated(version("a", 1), now)).To(BeZero(), "it is tried again")
	}
	n.NoteConflict(version("a", 1), now)
	g.Expect(n.Outdated(version("a", 2), now)).To(BeZero(), "the cache shows what the other writer wrote")
	g.Expect(n.Outdated(version("a", 1), now)).To(BeZero(), "that ended the conflict")
	n.NoteConflict(version("a", 2), now)
	g.Expect(n.Outdated(version("a", 2), now)).To(Equal(time.Second), "another conflict")
	n.Forget(types.NamespacedName{Namespace: "dc", Name: "h"})
	g.Expect(n.Outdated(version("a", 2), now)).To(BeZero())
}

// TestPropertyConflicts: with a cache that is behind by any number of versions, a reconcile every 100 ms and other writers, at most six writes conflict for each version in a minute.
func TestPropertyConflicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n controllers.WriteCache[*v1alpha1.BareMetalHost]
		now, server, cache, conflicts := time.Now(), 2, 1, 0
		behind := rapid.IntRange(1, 60).Draw(t, "seconds behind")
		for range behind * 10 {
			read := n.Read(version("a", cache))
			if n.Outdated(read, now) == 0 {
				if read.ResourceVersion == strconv.Itoa(server) {
					t.Fatal("the cache is behind")
				}
				n.NoteConflict(read, now)
				conflicts++
			}
			now = now.Add(100 * time.Millisecond)
		}
		if conflicts > 6 {
			t.Fatalf("%d conflicts in %d seconds", conflicts, behind)
		}
		if cache = server; n.Outdated(n.Read(version("a", cache)), now) != 0 {
			t.Fatal("it waits although the cache shows the newest version")
		}
	})
}

// TestPropertyWriteCache: while there is no other writer, Read returns no version older than the cache's, and none older than the last write.
func TestPropertyWriteCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n controllers.WriteCache[*v1alpha1.BareMetalHost]
		server, cache := 1, 1
		versions := []int{1} // in the order of the watch
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			foreign := false
			for _, v := range versions {
				foreign = foreign || v < 0
			}
			read, err := strconv.Atoi(n.Read(version("a", cache)).ResourceVersion)
			if err != nil {
				t.Fatal(err)
			}
			if read < cache || !foreign && read != server {
				t.Fatalf("read %d, the cache shows %d, the API server has %d", read, cache, server)
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // a write with an optimistic lock
				if read == server {
					server++
					versions = append(versions, server)
					n.Record(version("a", server))
				}
			case 1:
				if rapid.Bool().Draw(t, "foreign") {
					server++
					versions = append(versions, -server)
				}
			default: // the watch delivers the next version
				if len(versions) > 1 {
					versions = versions[1:]
					cache = max(versions[0], -versions[0])
					versions[0] = cache
				}
			}
		}
	})
}
