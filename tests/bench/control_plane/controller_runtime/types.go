package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "compilecache.dev", Version: "v1alpha1"}

// Resource is a CompileCache or a CompileCacheArchive. What it says stays text, which is smaller than typed fields:
// the comparison is not to be won here.
type Resource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              runtime.RawExtension `json:"spec,omitempty"`
	Status            runtime.RawExtension `json:"status,omitempty"`
}

func (r *Resource) copyInto(out *Resource) {
	out.TypeMeta = r.TypeMeta
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	r.Spec.DeepCopyInto(&out.Spec)
	r.Status.DeepCopyInto(&out.Status)
}

type CompileCache struct{ Resource }

func (c *CompileCache) DeepCopyObject() runtime.Object {
	out := &CompileCache{}
	c.copyInto(&out.Resource)
	return out
}

type CompileCacheArchive struct{ Resource }

func (a *CompileCacheArchive) DeepCopyObject() runtime.Object {
	out := &CompileCacheArchive{}
	a.copyInto(&out.Resource)
	return out
}

type CompileCacheList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompileCache `json:"items"`
}

func (l *CompileCacheList) DeepCopyObject() runtime.Object {
	out := &CompileCacheList{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*CompileCache))
	}
	return out
}

type CompileCacheArchiveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompileCacheArchive `json:"items"`
}

func (l *CompileCacheArchiveList) DeepCopyObject() runtime.Object {
	out := &CompileCacheArchiveList{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*CompileCacheArchive))
	}
	return out
}
