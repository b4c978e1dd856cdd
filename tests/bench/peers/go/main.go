// The page of /posts as one writes it in Go: net/http, database/sql with pgx, encoding/json, keyset pagination.
// In: GET /posts?limit=&cursor=. Out: the reader's JSON. Always: limit + 1 rows are asked for, a prepared
// statement is used, as many database connections as said are kept open.
//
//	go run . LISTEN DATABASE_URI CONNECTIONS
package main

import (
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

const (
	limitDefault = 20
	limitMax     = 100
)

const headSQL = `SELECT id, author, body, created_at FROM posts
ORDER BY created_at DESC, id DESC LIMIT $1`

const olderSQL = `SELECT id, author, body, created_at FROM posts
WHERE (created_at, id) < ($2, $3)
ORDER BY created_at DESC, id DESC LIMIT $1`

type post struct {
	ID        int64     `json:"id,string"`
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
}

type page struct {
	Posts      []post `json:"posts"`
	NextCursor string `json:"next_cursor"`
	HasMore    bool   `json:"has_more"`
}

type server struct {
	head, older *sql.Stmt
}

func encodeCursor(p *post) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(p.CreatedAt.UnixMicro()))
	binary.BigEndian.PutUint64(b[8:], uint64(p.ID))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func decodeCursor(text string) (at time.Time, id int64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return at, 0, err
	}
	if len(b) != 16 {
		return at, 0, errors.New("wrong length")
	}
	at = time.UnixMicro(int64(binary.BigEndian.Uint64(b[:8]))).UTC()
	return at, int64(binary.BigEndian.Uint64(b[8:])), nil
}

func (s *server) query(r *http.Request, cursor string, limit int) (*sql.Rows, error) {
	if cursor == "" {
		return s.head.QueryContext(r.Context(), limit+1)
	}
	at, id, err := decodeCursor(cursor)
	if err != nil {
		return nil, err
	}
	return s.older.QueryContext(r.Context(), limit+1, at, id)
}

func (s *server) read(rows *sql.Rows, limit int) (*page, error) {
	defer rows.Close()
	p := &page{Posts: make([]post, 0, limit+1)}
	for rows.Next() {
		var one post
		if err := rows.Scan(&one.ID, &one.Author, &one.Body, &one.CreatedAt); err != nil {
			return nil, err
		}
		one.CreatedAt = one.CreatedAt.UTC()
		p.Posts = append(p.Posts, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(p.Posts) > limit {
		p.Posts = p.Posts[:limit]
		p.HasMore = true
		p.NextCursor = encodeCursor(&p.Posts[limit-1])
	}
	return p, nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 {
		limit = limitDefault
	} else if limit > limitMax {
		limit = limitMax
	}
	rows, err := s.query(r, query.Get("cursor"), limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, err := s.read(rows, limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func open(uri string, connections int) (*server, error) {
	db, err := sql.Open("pgx", uri)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := &server{}
	if s.head, err = db.Prepare(headSQL); err != nil {
		return nil, err
	}
	s.older, err = db.Prepare(olderSQL)
	return s, err
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: posts LISTEN DATABASE_URI CONNECTIONS")
	}
	connections, err := strconv.Atoi(os.Args[3])
	if err != nil || connections < 1 {
		log.Fatal("CONNECTIONS is a whole number")
	}
	s, err := open(os.Args[2], connections)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/posts", s)
	log.Fatal(http.ListenAndServe(os.Args[1], mux))
}
