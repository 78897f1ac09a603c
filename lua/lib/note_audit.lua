-- Notes what an operator did, or had done; the newest thousand notes of a queue stay.
--   did: what was done, in a word; by: who, as JSON; user: of Redis; then more, names and values
-- needs: keys: audit
-- gives: note_audit
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and be there again
end
