-- Moves waiting messages whose time to live is over to the expiry queue. Returns how many were looked at.
-- drains
local limit = ARGV[1]
-- needs: expire
return expire(limit)
