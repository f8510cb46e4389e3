"""SASL, SCRAM credentials and ACLs. Changes are forwarded to the controller, reads use the image.

Invariant: only the derived keys of a password are forwarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import CLUSTER_NAME, SUPPORTED, AclEntry, Filter, Operation, PatternType, Permission, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.authorizer import Authorizer
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.requests import AccessUpdate, AlterAccess
from brokerd.net.request import Handler, Request
from brokerd.security import scram
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

ALTER_TIMEOUT_MS = 30_000
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CredentialChange = (
    m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    | m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
)
NO_AUTHORIZER = "No Authorizer is configured on the broker"


class SecurityApi:
    def __init__(
        self, image: Callable[[], Image], send_to_controller: SendToController, authorizer: Authorizer, auth: AuthHelper
    ) -> None:
        self._image, self._authorizer, self._auth = image, authorizer, auth
        self._forward = Forwarding(send_to_controller)

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.SASL_HANDSHAKE: self.handshake,
            ApiKey.SASL_AUTHENTICATE: self.authenticate,
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_credentials,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter_credentials,
        }

    def handshake(self, request: Request) -> None:
        if request.session.sasl is None:
            request.reply(m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        else:
            request.session.sasl.handshake(request)

    def authenticate(self, request: Request) -> None:
        if request.session.sasl is None:
            message = "SaslAuthenticate on a listener without SASL"
            request.reply(m.SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message))
        else:
            request.session.sasl.authenticate(request)

    def _may(self, request: Request, operation: Operation) -> bool:
        return self._auth.authorize(request, operation, Resource.CLUSTER)

    # -- ACLs ----------------------------------------------------------------------------------------------------------
    def describe_acls(self, request: Request) -> None:
        body: m.DescribeAclsRequest = request.body
        if not self._may(request, Operation.DESCRIBE):
            request.reply(m.DescribeAclsResponse(error_code=DENIED))
            return
        requested = Filter(
            body.resource_type_filter,
            body.pattern_type_filter,
            body.resource_name_filter,
            body.principal_filter,
            body.host_filter,
            body.operation,
            body.permission_type,
        )
        problem = requested.problem()
        if not self._authorizer.enabled:
            request.reply(m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
            return
        if problem is not None:
            request.reply(m.DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=problem))
            return
        response_type = m.DescribeAclsResponse
        by_resource: dict[tuple[int, str, int], list[m.DescribeAclsResponse.AclDescription]] = {}
        for a in self._authorizer.acls().all:
            if requested.fits(a):
                shown = response_type.AclDescription(
                    principal=a.principal, host=a.host, operation=a.operation, permission_type=a.permission
                )
                by_resource.setdefault((a.resource, a.name, a.pattern), []).append(shown)
        resources = [
            response_type.DescribeAclsResource(resource_type=t, resource_name=n, pattern_type=p, acls=acls)
            for (t, n, p), acls in by_resource.items()
        ]
        request.reply(response_type(resources=resources))

    def create_acls(self, request: Request) -> None:
        body: m.CreateAclsRequest = request.body
        result = m.CreateAclsResponse.AclCreationResult
        if not self._may(request, Operation.ALTER):
            request.reply(m.CreateAclsResponse(results=[result(error_code=DENIED) for _ in body.creations]))
            return
        results: list[m.CreateAclsResponse.AclCreationResult] = []
        items: list[AccessUpdate] = []
        places: list[int] = []
        for place, creation in enumerate(body.creations):
            problem = NO_AUTHORIZER if not self._authorizer.enabled else _acl_problem(creation)
            error = ErrorCode.INVALID_REQUEST if self._authorizer.enabled else ErrorCode.SECURITY_DISABLED
            results.append(result(error_code=error, error_message=problem) if problem is not None else result())
            if problem is None:
                acl = AclEntry(
                    Resource(creation.resource_type),
                    PatternType(creation.resource_pattern_type),
                    creation.resource_name,
                    creation.principal,
                    creation.host,
                    Operation(creation.operation),
                    Permission(creation.permission_type),
                )
                items.append(AccessUpdate(acl.key, AccessKind.ACL, acl.to_json()))
                places.append(place)

        def on_results(outcomes: Results) -> None:
            by_name = {item.name: r for item, r in zip(once, outcomes, strict=True)}
            for place, item in zip(places, items, strict=True):
                r = by_name[item.name]
                results[place] = result(error_code=r.error, error_message=r.message)
            request.reply(m.CreateAclsResponse(results=results))

        once = tuple({i.name: i for i in items}.values())
        self._forward(AlterAccess(principal=request.principal, items=once), ALTER_TIMEOUT_MS, on_results)

    def delete_acls(self, request: Request) -> None:
        body: m.DeleteAclsRequest = request.body
        response_type = m.DeleteAclsResponse
        if not self._may(request, Operation.ALTER):
            request.reply(
                response_type(
                    filter_results=[response_type.DeleteAclsFilterResult(error_code=DENIED) for _ in body.filters]
                )
            )
            return
        matches: list[list[AclEntry] | str] = []
        for acl_filter in body.filters:
            requested = Filter(
                acl_filter.resource_type_filter,
                acl_filter.pattern_type_filter,
                acl_filter.resource_name_filter,
                acl_filter.principal_filter,
                acl_filter.host_filter,
                acl_filter.operation,
                acl_filter.permission_type,
            )
            problem = NO_AUTHORIZER if not self._authorizer.enabled else requested.problem()
            matches.append(
                problem if problem is not None else [a for a in self._authorizer.acls().all if requested.fits(a)]
            )
        deleted = list(dict.fromkeys(a for match in matches if not isinstance(match, str) for a in match))
        items = tuple(AccessUpdate(a.key, AccessKind.ACL, None) for a in deleted)

        def on_results(outcomes: Results) -> None:
            verdicts = dict(zip(deleted, outcomes, strict=True))
            filter_results = []
            for match in matches:
                if isinstance(match, str):
                    error = ErrorCode.INVALID_REQUEST if self._authorizer.enabled else ErrorCode.SECURITY_DISABLED
                    filter_results.append(response_type.DeleteAclsFilterResult(error_code=error, error_message=match))
                    continue
                shown = [
                    response_type.DeleteAclsMatchingAcl(
                        error_code=verdicts[a].error,
                        error_message=verdicts[a].message,
                        resource_type=a.resource,
                        resource_name=a.name,
                        pattern_type=a.pattern,
                        principal=a.principal,
                        host=a.host,
                        operation=a.operation,
                        permission_type=a.permission,
                    )
                    for a in match
                ]
                filter_results.append(response_type.DeleteAclsFilterResult(matching_acls=shown))
            request.reply(response_type(filter_results=filter_results))

        self._forward(AlterAccess(principal=request.principal, items=items), ALTER_TIMEOUT_MS, on_results)

    # -- credentials ---------------------------------------------------------------------------------------------------
    def describe_credentials(self, request: Request) -> None:
        body: m.DescribeUserScramCredentialsRequest = request.body
        if not self._may(request, Operation.DESCRIBE):
            request.reply(m.DescribeUserScramCredentialsResponse(error_code=DENIED))
            return
        by_user: dict[str, list[tuple[int, int]]] = {}
        for code, mechanism in scram.CODES.items():
            for key, (_, value) in self._image().access.get(AccessKind.SCRAM, {}).items():
                name, _, user = key.partition(":")
                if name == mechanism and value is not None:
                    by_user.setdefault(user, []).append((code, scram.Credential.from_json(value).iterations))
        names = [u.name for u in body.users] if body.users else sorted(by_user)
        result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
        info = m.DescribeUserScramCredentialsResponse.CredentialInfo
        out = []
        for user in dict.fromkeys(names):
            if names.count(user) > 1:
                message = "Cannot describe SCRAM credentials for the same user twice in a single request"
                out.append(result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=message))
            elif user not in by_user:
                message = "Attempt to describe a user credential that does not exist"
                out.append(result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=message))
            else:
                infos = [info(mechanism=c, iterations=i) for c, i in by_user[user]]
                out.append(result(user=user, credential_infos=infos))
        request.reply(m.DescribeUserScramCredentialsResponse(results=out))

    def alter_credentials(self, request: Request) -> None:
        body: m.AlterUserScramCredentialsRequest = request.body
        changes: list[CredentialChange] = [*body.deletions, *body.upsertions]
        users = list(dict.fromkeys(c.name for c in changes))
        shape = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
        if not self._may(request, Operation.ALTER):
            denied = [shape(user=user, error_code=DENIED) for user in users]
            request.reply(m.AlterUserScramCredentialsResponse(results=denied))
            return
        known = self._image().access.get(AccessKind.SCRAM, {})
        problems: dict[str, tuple[int, str]] = {}
        updates: list[tuple[str, AccessUpdate]] = []
        seen: set[tuple[str, int]] = set()
        for change in changes:
            problem = self._problem(change, known, (change.name, change.mechanism) in seen)
            seen.add((change.name, change.mechanism))
            if problem is not None:
                problems.setdefault(change.name, problem)
                continue
            mechanism = scram.CODES[change.mechanism]
            value = None
            if isinstance(change, m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion):
                made = scram.credential(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
                value = made.to_json()
            updates.append((change.name, AccessUpdate(f"{mechanism}:{change.name}", AccessKind.SCRAM, value)))
        updates = [
            (user, u) for user, u in updates if user not in problems
        ]  # all changes of a user are applied, or none

        def on_results(results: Results) -> None:
            for (user, _), r in zip(updates, results, strict=True):
                if r.error:
                    problems.setdefault(user, (r.error, r.message or ""))
            out = []
            for user in users:
                error, message = problems.get(user, (0, None))
                out.append(shape(user=user, error_code=error, error_message=message))
            request.reply(m.AlterUserScramCredentialsResponse(results=out))

        payload = AlterAccess(principal=request.principal, items=tuple(u for _, u in updates))
        self._forward(payload, ALTER_TIMEOUT_MS, on_results)

    @staticmethod
    def _problem(
        change: CredentialChange, credentials: Mapping[str, tuple[int, object]], again: bool
    ) -> tuple[int, str] | None:
        """(error code, message) of an invalid credential change, None for a valid one. The checks have the same order as in Kafka. `credentials`: the current
        credentials. `again`: the request has already changed this credential."""
        if not change.name:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
        if change.mechanism not in scram.CODES:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if again:
            return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        if isinstance(change, m.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
            if credentials.get(f"{scram.CODES[change.mechanism]}:{change.name}", (0, None))[1] is None:
                return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            return None
        if change.iterations < scram.ITERATIONS_MIN:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        if change.iterations > scram.ITERATIONS_MAX:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        if not change.salt or not change.salted_password:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "salt and password must not be empty"
        return None


def _acl_problem(creation: m.CreateAclsRequest.AclCreation) -> str | None:
    """Return the reason why this is not a valid ACL."""
    if creation.resource_type not in SUPPORTED or creation.resource_pattern_type not in (
        PatternType.LITERAL,
        PatternType.PREFIXED,
    ):
        return f"ACLs are not supported for resource type {creation.resource_type} with pattern type {creation.resource_pattern_type}"
    if creation.permission_type not in (Permission.ALLOW, Permission.DENY):
        return f"permission type {creation.permission_type} is neither allow nor deny"
    if creation.operation != Operation.ALL and creation.operation not in SUPPORTED[Resource(creation.resource_type)]:
        return f"operation {creation.operation} does not apply to resource type {creation.resource_type}"
    if not creation.resource_name or (
        creation.resource_type == Resource.CLUSTER and creation.resource_name != CLUSTER_NAME
    ):
        return (
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
            if creation.resource_name
            else "Invalid empty resource name"
        )
    kind, colon, name = creation.principal.partition(":")
    if not (kind and colon and name):
        return f"Could not parse principal {creation.principal!r}: write it like User:alice"
    return None if creation.host else "The host should not be empty"
